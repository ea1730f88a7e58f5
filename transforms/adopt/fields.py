"""From what was seen in the records to the fields of a dataset."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from beamfeed.contract.dataset.fields import Field, Role, Stored, field_name
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.transforms.adopt.examples import MOST_VALUES, Name, Stats
from beamfeed.transforms.adopt.request import Asked, Request, Shape, Value
from beamfeed.transforms.tfds.read import Hint

MOST_CATEGORIES = 100_000  # whole numbers below this that a model may take for categories


def identifiers(names: Sequence[Name]) -> dict[Name, str]:
    """A name for each field: letters, digits and _; features of the same one get a number.

    Example:
      >>> identifiers([Name("image/encoded"), Name("label")])
      {Name(name='image/encoded', in_steps=False): 'image_encoded', Name(name='label', in_steps=False): 'label'}
    """
    called: dict[Name, str] = {}
    for name in sorted(names, key=lambda candidate: (plain(candidate.name) != candidate.name, candidate)):
        base = plain(name.name)
        number, used = 2, set(called.values())
        chosen = base
        while chosen in used:
            chosen, number = f"{base}_{number}", number + 1
        called[name] = chosen
    return {name: called[name] for name in names}


def plain(name: str) -> str:
    """A name with `_` for what the name of a field cannot have."""
    identifier = field_name(name)
    return "feature" if identifier == "_" else identifier


def check_names(request: Request, names: Sequence[str], *, only_first: bool = False) -> None:
    """Raises UserError if an option names a feature that there is not.

    Args:
      request: what the user asks for.
      names: of the features.
      only_first: whether these are of the first records: others may have more, so that a name must be nearly one.
    """
    accepted = sorted({*names, *map(plain, names)})
    text = "no such feature" if only_first else "no record has such a feature"
    for option, named in request.named.items():
        for name in named:
            near = near_miss(name, accepted)
            if name not in accepted and (near or not only_first):
                listed = ", ".join(sorted(names)[:20]) + (", ..." if len(names) > 20 else "")
                raise UserError(f"{option} {name}: {text}{near} (they have: {listed})")


def make_fields(
    features: Mapping[Name, Stats], rows: int, request: Request, hints: Mapping[str, Hint]
) -> tuple[list[Field], list[str]]:
    """The fields, in the order of the features' names, and notes for the user.

    Args:
      features: what was seen in all shards.
      rows: records that are not empty.
      request: what the user asks for.
      hints: what is known of features besides, by their names.

    Raises:
      UserError: if an option does not fit the feature that it names.
    """
    names = identifiers(sorted(features))
    fields, notes = [], []
    for name, stats in sorted(features.items()):
        hint = hints.get(name.name, Hint())
        if hint.role == "target" and request.targets:
            hint = replace(hint, role="key")
        if not stats.records:
            notes.append(f"feature {name.name!r}: holds nothing in any record; left out")
            continue
        if stats.widths[0] != stats.widths[1]:
            low, high = stats.widths
            notes.append(f"feature {name.name!r}: its steps hold from {low} to {high} values; left out")
            continue
        twin = features.get(Name(name.name)) if name.in_steps else None
        known_as = names[name] if twin is not None and twin.records else name.name  # the list of both has the name
        field = _field(name, names[name], request.of(known_as, names[name]), stats, rows, hint)
        fields.append(field)
        if hint.raw and field.dtype == "bytes":
            memory = f"{hint.raw} [{_shown(hint.sizes)}]"
            notes.append(f"feature {name.name!r}: not each record has one string, {memory}; they are strings")
        if field.dtype == "bytes" and field.shape != () and (content := hint.content or stats.content):
            use = "a model gets them as strings" if field.role == "input" else "it is a key"
            notes.append(f"feature {name.name!r}: not one {content} in each record, which nothing decodes; {use}")
        notes += _remarks(field, stats, rows)
    return fields, notes


def _field(name: Name, called: str, asked: Asked, stats: Stats, rows: int, hint: Hint) -> Field:
    """A field that is called so."""
    assert stats.listed is not None
    is_strings = stats.listed == "bytes"
    content = (hint.content or stats.content) if is_strings else ""
    # Without being told, strings that are no files name something, and all others are for the model.
    role = asked.role or hint.role or ("key" if is_strings and not (content or hint.raw) else "input")
    feature = "" if name.name == called else name.name
    if hint.raw and is_strings:
        if asked.default is None and _is_memory(name, stats, rows, hint):
            return Field(name=called, dtype=hint.raw, shape=hint.sizes, role=role, feature=feature)
        hint, role = Hint(), asked.role or "key"
    shape, stored = _shape(name, called, asked, stats, rows, hint)
    default = None if asked.default is None else _typed(asked.default, stats, called)
    if default is not None and None in shape:
        raise UserError(
            f"--default {called}={asked.default}: its lists hold from {stats.shortest} to {stats.longest} values, and "
            "a default is for lists of one length; records that lack it have an empty list without"
        )
    if role != "input":
        content = ""
    elif content and shape != ():  # decoders take one string in each record
        content, role = "", asked.role or "key"
    classes = _classes(called, asked.classes, stats, hint, default) if role == "target" else []
    spelled = bool(classes) and is_strings
    field = Field(
        name=called,
        dtype="int64" if spelled else stats.listed,
        shape=shape,
        role=role,
        sizes=_sizes(stats, role, shape, default),
        classes=classes,
        spelled=spelled,
        content=content,
        default=default,
        feature=feature,
        stored=stored,
    )
    if role in ("target", "weight"):
        _check_target(field, stats, rows)
    return field


def _is_memory(name: Name, stats: Stats, rows: int, hint: Hint) -> bool:
    """Whether each record has one string, the memory of numbers of the shape that is known."""
    is_single = not name.in_steps and stats.records == rows and stats.shortest == stats.longest == 1
    return is_single and stats.low == stats.high == math.prod(hint.sizes) * hint.bytes


def _shape(name: Name, called: str, asked: Asked, stats: Stats, rows: int, hint: Hint) -> tuple[Shape, Stored]:
    """The shape of a value, and how records store it."""
    if name.in_steps:
        return ((None,) if stats.widths[0] == 1 else (None, stats.widths[0])), "steps"
    fixed = stats.shortest == stats.longest and (stats.records == rows or asked.default is not None)
    shape = hint.shape if asked.shape is None else asked.shape
    if shape is not None:
        width = math.prod(size or 1 for size in shape)
        ragged = None in shape
        fits = stats.divisor % width == 0 if ragged else fixed and stats.longest == width
        if fits and None not in shape[1:]:
            return shape, "list" if ragged else "rows"
        if asked.shape is not None:
            lengths = f"{stats.shortest}" if fixed else f"from {stats.shortest} to {stats.longest}"
            lacking = "" if stats.records == rows else f", and {rows - stats.records:,} records have none"
            raise UserError(
                f"--shape {called}={_shown(asked.shape)}: does not fit: its lists hold {lengths} values{lacking}"
            )
    if fixed:
        return (() if stats.longest == 1 else (stats.longest,)), "rows"
    return (None,), "list"


def _shown(shape: Shape) -> str:
    return ",".join("any" if size is None else str(size) for size in shape)


def _range(stats: Stats, default: Value | None) -> tuple[int, int]:
    """The lowest and the highest of whole numbers, with the one that stands for those that are not there."""
    numbers = [number for number in (stats.low, stats.high, default) if number is not None]
    return int(min(map(float, numbers), default=0)), int(max(map(float, numbers), default=0))


def _sizes(stats: Stats, role: Role, shape: Shape, default: Value | None) -> list[int]:
    """Of whole numbers from 0 on, how many there are: a model may take them for categories, but not in several axes."""
    if role != "input" or stats.listed != "int64" or stats.low is None or len(shape) > 1:
        return []
    low, high = _range(stats, default)
    return [high + 1] if low >= 0 and high < MOST_CATEGORIES else []


def _classes(called: str, given: tuple[str, ...] | None, stats: Stats, hint: Hint, default: Value | None) -> list[str]:
    """The names of the classes: those that are given, those that are known, or the numbers up to the highest."""
    if given is None and not hint.classes:
        return []
    option, names = f"--classes {called}", list(given or hint.classes)
    if stats.listed == "bytes":
        return _spelled(option, stats, names, default)
    if stats.listed != "int64":
        raise UserError(f"{option}: the records hold {stats.listed}; classes are whole numbers (int64), or texts")
    low, high = _range(stats, default)
    note = "" if default is None else f", with --default {called}={default}"
    if not names:
        if low < 0 or high >= MOST_CATEGORIES:
            raise UserError(f"{option}=auto: its values are from {low} to {high}{note}; classes are counted from 0 on")
        return [str(number) for number in range(high + 1)]
    if low < 0 or high >= len(names):
        raise UserError(
            f"{option}: {len(names)} names are for the numbers 0 to {len(names) - 1}; "
            f"its values are from {low} to {high}{note}"
        )
    return names


def _spelled(option: str, stats: Stats, names: list[str], default: Value | None) -> list[str]:
    """The classes of a target of texts: those that are given, or its texts in the order of the alphabet."""
    if stats.counts is None:
        raise UserError(f"{option}: its strings are not UTF-8, or more than {MOST_VALUES:,} different ones")
    texts = sorted({*map(str, stats.counts), *([] if default is None else [str(default)])})
    if names and (unknown := [text for text in texts if text not in names]):
        raise UserError(f"{option}: records hold {unknown[0]!r}{near_miss(unknown[0], names)}, which is none of them")
    return names or texts


def _check_target(field: Field, stats: Stats, rows: int) -> None:
    """Raises UserError if a target or weight has not one number in each record."""
    option = f"--{field.role} {field.name}"
    if field.dtype == "bytes":
        raise UserError(
            f"{option}: holds strings; a {field.role} is a number"
            + (f"; --classes {field.name}=auto makes classes of them" if field.role == "target" else "")
        )
    if field.shape == (1,) or field.shape == ():
        return
    if field.is_ragged and stats.longest == 1 and stats.records < rows:
        raise UserError(
            f"{option}: {rows - stats.records:,} of {rows:,} records have none; "
            f"--default {field.name}=VALUE gives them one"
        )
    raise UserError(f"{option}: has the shape [{_shown(field.shape)}]; a {field.role} is one number in each record")


def _typed(value: Value, stats: Stats, called: str) -> Value:
    """The default as the list's type has it.

    Raises:
      UserError: if it is of another type.
    """
    option = f"--default {called}={value}"
    if stats.listed == "bytes":
        return str(value)
    if isinstance(value, str) or (stats.listed == "int64" and not isinstance(value, int)):
        raise UserError(f"{option}: the records hold {stats.listed}, give such a number")
    return float(value) if stats.listed == "float32" else value


def _remarks(field: Field, stats: Stats, rows: int) -> list[str]:
    lines = []
    if stats.records < rows and (field.is_ragged or field.default is not None):
        instead = "an empty list" if field.default is None else repr(field.default)
        lines.append(f"feature {field.in_records!r}: {rows - stats.records:,} records lack it: {instead}")
    if not stats.finite:
        lines.append(f"feature {field.in_records!r}: has values that are not finite")
    return lines
