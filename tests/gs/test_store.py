"""The stand-in itself: what the other tests rely on."""

import urllib.error
import urllib.request

import pytest
from cloud.exchange import Refused
from cloud.store import Store


@pytest.fixture
def store() -> Store:
    return Store("b")


def test_preconditions_are_enforced(store):
    first = store.put("b", "x", b"1", {"ifGenerationMatch": "0"})
    for refused in (
        lambda: store.put("b", "x", b"2", {"ifGenerationMatch": "0"}),
        lambda: store.delete("b", "x", {"ifGenerationMatch": "1"}),
        lambda: store.get("b", "x", {"ifGenerationNotMatch": str(first.generation)}),
        lambda: store.copy(first, "b", "y", {"ifSourceGenerationMatch": "1"}),
    ):
        with pytest.raises(Refused) as caught:
            refused()
        assert caught.value.status == 412
    second = store.put("b", "x", b"2", {"ifGenerationMatch": str(first.generation)})
    assert second.generation > first.generation
    with pytest.raises(Refused) as caught:
        store.get("b", "x", {"generation": str(first.generation)})
    assert caught.value.status == 404


def test_pages_hold_names_and_prefixes_in_order(store):
    for name in ("a", "d/", "d/1", "d/e/", "e", "f/1"):
        store.put("b", name, b"")
    found, token = [], ""
    while token is not None:
        page = store.page("b", {"delimiter": "/", "maxResults": "2", "pageToken": token})
        found.append(([stored.name for stored in page.objects], page.prefixes))
        token = page.next
    assert found == [(["a"], ["d/"]), (["e"], ["f/"])]
    page = store.page("b", {"delimiter": "/", "prefix": "d/", "includeTrailingDelimiter": "true"})
    assert [stored.name for stored in page.objects] == ["d/", "d/1", "d/e/"]


def test_no_other_host_can_be_reached(cloud):
    proxies = urllib.request.ProxyHandler({"https": f"http://{cloud.proxy.address}"})
    with pytest.raises(urllib.error.URLError, match="403"):
        urllib.request.build_opener(proxies).open("https://example.com/", timeout=5)
    assert cloud.proxy.refused == ["example.com"]
