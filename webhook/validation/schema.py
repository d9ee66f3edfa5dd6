"""Checks of the API server before KubeRay receives an object: types, limits, field names.

For files only: an object in a review has passed these checks. The CRD's CEL rules are not included;
those of `deletionStrategy` are separate rules, and the others compare an object with its previous
version.
"""

import copy
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from webhook.api import names
from webhook.api.formats import (
    LABEL_VALUE_ADVICE,
    explain_non_string,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
    nearest,
    shorten,
)
from webhook.api.release import format_release
from webhook.api.review import DUPLICATE, NOT_SUPPORTED, REQUIRED, TYPE_INVALID
from webhook.manifest.yaml_values import PLAIN, as_stored, scalar
from webhook.validation.crd import Part, Schema, releases, schema_of, walk_schema
from webhook.validation.field import Field, at
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject, read_ray_object
from webhook.validation.rule_settings import RuleSettings

# https://github.com/kubernetes/apimachinery/blob/master/pkg/api/resource/quantity.go
_QUANTITY: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))?",
    re.ASCII,
)
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
_RESOURCES: Final = "resources"
_YAML_TEXTS: Final = ("serveConfigV2", "runtimeEnvYAML")
_KINDS: Final = {dict: "a map", list: "a list"}
_MISSPELT: Final = 0.85
"""The minimum similarity by difflib's ratio, where 1 is the same word: `workerGroupSpec` has 0.97,
`imgePullPolicy` 0.96, and `labelRefs`, a field of a newer release, 0.8 to `labels`.
"""
_WANTED: Final = {
    "string": "a string",
    "boolean": "true or false",
    "int32": "an integer",
    "int64": "an integer",
    "number": "a number",
    "int-or-string": "an integer or a string",
    "quantity": "a quantity such as 4, 500m or 8Gi; one with a point needs quotes",
    "date-time": "a time such as 2026-01-01T00:00:00Z",
}


def schema_violated(ray_object: RayObject) -> Iterator[Fault]:
    """A value in a file that KubeRay's CRD does not allow.

    The API server refuses the object: a required field is missing, or a value has another type, is
    not among the allowed values, or is out of range.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/config/crd/bases/ray.io_rayclusters.yaml
    """
    schema, root = _schema(ray_object)
    if root is None:
        yield _build_version_fault(ray_object)
    else:
        yield from _metadata(ray_object.meta)
        for field, part in walk_schema(ray_object.root, schema, root):
            yield from _faults(field, part)


def _build_version_fault(ray_object: RayObject) -> Fault:
    """Return the fault of an object of a kind and version that the release does not have."""
    field, kuberay = ray_object.root / "apiVersion", ray_object.settings.kuberay
    kind = _stable_version(ray_object)
    first = next(release for release in releases() if kind in schema_of(release).roots)
    if kuberay is not None and kuberay < first:
        problem = f"KubeRay {format_release(kuberay)} has no {ray_object.kind}"
        return Fault(field, f"{problem}: use {format_release(first)} or later", NOT_SUPPORTED)
    problem = f"KubeRay has no {ray_object.kind} in {shorten(field.text)}"
    return Fault(field, f"{problem}: write ray.io/v1", NOT_SUPPORTED)


def _metadata(meta: Field) -> Iterator[Fault]:
    """Check the names and labels of an object; the CRD does not describe them."""
    labels = meta / "labels"
    for key, value in labels.strings.items():
        if not is_qualified_name(key):
            yield Fault(labels.key(key), f"{shorten(key)!r} cannot be the key of a label")
        elif not is_label_value(value):
            yield Fault(labels.key(key), LABEL_VALUE_ADVICE)
    name, prefix = meta / "name", meta / "generateName"
    if name.value in (None, "") and prefix.value in (None, ""):
        yield Fault(name, "the name is not set: every object needs one", REQUIRED)
    for field, name_text in ((name, name.text), (prefix, _mask_trailing_dash(prefix.text))):
        if name_text and not is_dns_subdomain(name_text):
            problem = f"the name is {shorten(field.text)!r}"
            yield Fault(field, f"{problem}: use lower-case letters, digits, '-' and '.'")


def _mask_trailing_dash(prefix: str) -> str:
    """Return the prefix of a name as Kubernetes checks it, which may end with a dash.

    https://github.com/kubernetes/apimachinery/blob/master/pkg/api/validation/generic.go
    (`maskTrailingDash`)
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def field_unknown(ray_object: RayObject) -> Iterator[Fault]:
    """A field in a file that is not in KubeRay's CRD, or not in the `metadata` of any object.

    `kubectl apply` refuses the object; without field validation, as by Helm and Argo CD, the API
    server stores it without the field. A misspelt field is a denial, any other a warning: it may be
    one of a newer release.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
    """
    schema, root = _schema(ray_object)
    for holder, part in walk_schema(ray_object.root, schema, root) if root is not None else ():
        part_fields = part.fields
        if part_fields is None:
            continue
        for key in (field_name for field_name in holder.map if field_name not in part_fields):
            newer = _has_field(_version(ray_object), holder, key)
            stable = _has_field(_stable_version(ray_object), holder, key)
            near = misspelt(key, part_fields)
            values = (holder / key).map
            if newer:
                hint = "a later KubeRay has it"
            elif stable:
                hint = "ray.io/v1 has it: write that apiVersion"
            elif values and not near and values.keys() <= part_fields.keys():
                hint = "move its fields one level up"
            elif not near and holder.token == _RESOURCES:
                hint = "write it in limits or requests"
            elif not near and (place := _find_place(schema, root, holder, key)):
                hint = f"write it in {place}"
            elif close := near or nearest(key, part_fields):
                hint = f"did you mean {close}?"
            else:
                hint = "remove it, or move it to where it belongs"
            message = f"no such field: {hint}"
            doubtful = newer or not (near or stable)
            yield Fault(holder / key, message, NOT_SUPPORTED, doubtful=doubtful)


def _has_field(version: str, holder: Field, key: str) -> bool:
    """Return whether a version of a kind has a field in the newest KubeRay."""
    newest = schema_of(None)
    part = _part_at(newest, newest.roots.get(version), holder.tokens)
    return part is not None and part.below(key) is not None


_DEPTH: Final = 3
"""The number of fields below a map in which a misplaced field is looked for."""


def _find_place(schema: Schema, root: int | None, holder: Field, key: str) -> str:
    """Return the path of the nearest map that has a field, below a map, else of one that contains
    it; empty without one.
    """
    tokens = holder.tokens
    start = _part_at(schema, root, tokens)
    parts = [("", start)] if start is not None else []
    for _ in range(_DEPTH):
        parts = [
            (f"{path}.{name}" if path else name, _entry_part(schema, below))
            for path, part in parts
            for name, below in (part.fields or {}).items()
        ]
        for path, part in parts:
            if key in (part.fields or {}):
                return path
    for depth in range(len(tokens) - 1, 0, -1):
        above = _part_at(schema, root, tokens[:depth])
        if above is not None and key in (above.fields or {}):
            return ".".join([token for token in tokens[:depth] if isinstance(token, str)][-2:])
    return ""


def _entry_part(schema: Schema, name: str | int) -> Part:
    """Return a part, or that of its elements."""
    part = schema.part(name)
    return part if part.list is None else schema.part(part.list)


def misspelt(key: str, known: Iterable[str]) -> str:
    """Return the field that a key was meant to be: the same letters, or all but about one in ten;
    empty for any other key.
    """
    letters = {_letters(name): name for name in known}
    return letters.get(nearest(_letters(key), letters, _MISSPELT), "")


def _letters(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def _part_at(schema: Schema, root: int | None, tokens: Iterable[str | int]) -> Part | None:
    """Return the part of the schema for a field, None if the schema has no such field."""
    name: str | int | None = root
    for token in tokens:
        if name is None:
            return None
        part = schema.part(name)
        name = part.list if isinstance(token, int) else part.below(token)
    return None if name is None else schema.part(name)


_PROBES: Final[dict[str, tuple[Any, ...]]] = {
    "boolean": (True, False),
    "string": ("probe", "probe"),
    **dict.fromkeys(("int32", "int64", "number", "int-or-string"), (7919, 7919)),
}
"""Values that no one writes, by type."""


def meant(kind: str, value: object, settings: RuleSettings) -> list[Any]:
    """Return two versions of an object in a file with other values for the fields of which only
    the rules in this module can say something: values of another type without their quotes or
    with any value of the right type, misspelt fields with the right name, and ray.io/v1 in place
    of a version that lacks one of its fields. Empty without such fields.
    """
    ray_object = read_ray_object(kind, value, settings)
    schema, root = _schema(ray_object)
    wrong: list[tuple[Field, tuple[Any, ...]]] = []
    renamed: list[tuple[Field, str]] = []
    needs_stable = False
    for field, part in walk_schema(ray_object.root, schema, root) if root is not None else ():
        if part.type in _PROBES and not _has_type(field.value, part.type):
            plain = parse_quoted_scalar(field.value, part.type)
            wrong.append((field, _PROBES[part.type] if plain is None else (plain, plain)))
        if part.fields is not None:
            for key in (field_name for field_name in field.map if field_name not in part.fields):
                name = misspelt(key, part.fields)
                renamed += [(field / key, name)] if name and name not in field.map else []
                needs_stable |= _has_field(_stable_version(ray_object), field, key)
    if not wrong and not renamed and not needs_stable:
        return []
    versions: list[Any] = [copy.deepcopy(value), copy.deepcopy(value)]
    for index, version in enumerate(versions):
        if needs_stable:
            version["apiVersion"] = f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}"
        for field, values in wrong:
            _holder(version, field)[field.token] = values[index]
        for field, name in renamed:
            _holder(version, field)[name] = field.value
    return versions


def _holder(document: Any, field: Field) -> Any:  # noqa: ANN401 - JSON
    """Return the map or list of a document that contains a field."""
    for token in field.tokens[:-1]:
        document = document[token]
    return document


def parse_quoted_scalar(value: object, kind: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a text without its quotes, None if it does not have the type `kind`."""
    plain = scalar(PLAIN, value) if isinstance(value, str) else None
    return plain if plain is not None and _has_type(plain, kind) else None


def key_duplicate(ray_object: RayObject) -> Iterator[Fault]:
    """A key that a map in a file has more than once.

    `kubectl apply` and Helm use the last value and ignore the others, and Kustomize refuses the
    file.

    https://yaml.org/spec/1.2.2/#3213-node-comparison
    """
    for duplicate in ray_object.duplicates:
        message = f"{shorten(duplicate.problem)}: the last value counts, remove the others"
        yield Fault(ray_object.root.below(duplicate.tokens), message, DUPLICATE)


def prune_object(kind: str, value: Any, release: tuple[int, int] | None) -> Any:  # noqa: ANN401 - JSON
    """Return an object as the API server stores it: without status, unknown fields and nulls, and
    with integers in place of floats without a fraction.
    """
    schema = schema_of(release)
    version = str(at(value, "apiVersion")).partition("/")[2]
    root = schema.roots.get(f"{version}/{kind}")
    if root is None:
        return value
    stored_object: dict[str, Any] = _prune_value(value, schema, root)
    stored_object.pop("status", None)
    return stored_object


def _schema(ray_object: RayObject) -> tuple[Schema, int | None]:
    """Return the schema that applies to an object, and the part of its kind."""
    schema = schema_of(ray_object.settings.kuberay)
    return schema, schema.roots.get(_version(ray_object))


def _version(ray_object: RayObject) -> str:
    version = (ray_object.root / "apiVersion").text.partition("/")[2]
    return f"{version}/{ray_object.kind}"


def _stable_version(ray_object: RayObject) -> str:
    return f"{names.RAY_VERSIONS[0]}/{ray_object.kind}"


def _faults(field: Field, part: Part) -> Iterator[Fault]:
    """Yield what the API server refuses in a value, aside from what it contains."""
    value = field.value
    if part.fields is not None or part.map is not None:
        if type(value) is not dict:
            named = "name" in (part.fields or ()) and is_dns_subdomain(field.text)
            yield _type(field, f"a map{f', as in name: {shorten(value)}' if named else ''}")
            return
        for name in part.required:
            if not (field / name).given and name not in part.defaulted:
                yield Fault(field / name, f"{name} is not set: the CRD requires it", REQUIRED)
    elif part.list is not None:
        yield from _list(field, part) if type(value) is list else [_type(field, "a list")]
    elif part.type != "any":
        fits = _has_type(value, part.type)
        yield from _limits(field, part) if fits else [_type(field, _WANTED[part.type], part.type)]


def _list(field: Field, part: Part) -> Iterator[Fault]:
    if part.min_items is not None and field.size < part.min_items:
        yield Fault(field, f"{field.size} entries: write at least {part.min_items}")
    identities: set[str] = set()
    for item in field.items():
        key = _identity(item, part)
        if key and key in identities:
            yield Fault(item, "another entry of the list has the same name or key", DUPLICATE)
        identities.add(key)


def _identity(item: Field, part: Part) -> str:
    """Return the value that must be unique among the entries as JSON, or an empty text."""
    value = item.value
    if not part.set:
        if not part.keys or type(value) is not dict:
            return ""
        defaults = {"protocol": "TCP"} if "protocol" in part.keys else {}
        value = [value.get(key, defaults.get(key)) for key in part.keys]
    return json.dumps(value, sort_keys=True)


def _has_type(value: Any, kind: str) -> bool:  # noqa: ANN401 - JSON has values of every type
    value_type = type(value)
    whole = value_type is int or (value_type is float and value.is_integer())
    match kind:
        case "string":
            return value_type is str
        case "boolean":
            return value_type is bool
        case "number":
            return value_type in (int, float)
        case "date-time":
            return value_type is str and _DATE.fullmatch(value) is not None
        case "quantity":
            return whole or (value_type is str and _QUANTITY.fullmatch(value) is not None)
    return whole or (value_type is str and kind == "int-or-string")


def _limits(field: Field, part: Part) -> Iterator[Fault]:
    value = field.value
    if part.enum and value not in part.enum:
        allowed = " or ".join(map(str, part.enum)) if len(part.enum) < 7 else "a known value"  # noqa: PLR2004
        yield Fault(field, f"{shorten(str(value))!r}: write {allowed}", NOT_SUPPORTED)
    if part.minimum is not None and value < part.minimum:
        yield Fault(field, f"{value}: write {part.minimum:g} or more")
    if part.maximum is not None and value > part.maximum:
        yield Fault(field, f"{value}: write at most {part.maximum:g}")
    if part.min_length is not None and len(value) < part.min_length:
        yield Fault(field, f"{len(value)} characters: write at least {part.min_length}")
    if part.max_length is not None and len(value) > part.max_length:
        yield Fault(field, f"{len(value)} characters: write at most {part.max_length}")
    if part.pattern and not _pattern(part.pattern).search(value):
        yield Fault(field, f"{shorten(value)!r} is not of the form {shorten(part.pattern)}")


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.removesuffix("$") + r"\Z" if text.endswith("$") else text, re.ASCII)


def _type(field: Field, wanted: str, kind: str = "") -> Fault:
    value = field.value
    if parse_quoted_scalar(value, kind) is not None:
        message = f'"{shorten(value)}" is a string: remove the quotes'
        return Fault(field, message, TYPE_INVALID)
    if isinstance(value, dict) and field.token in _YAML_TEXTS:
        return Fault(field, "a map: write '|' after the colon, which makes it text", TYPE_INVALID)
    if isinstance(value, dict | list):
        return Fault(field, f"{_KINDS[type(value)]}: write {wanted}", TYPE_INVALID)
    if wanted == _WANTED["string"] and value is not None:
        return Fault(field, explain_non_string(value), TYPE_INVALID)
    value_text = shorten(str(value).lower() if isinstance(value, bool) else str(value))
    return Fault(field, f"{value_text!r}: write {wanted}", TYPE_INVALID)


def _prune_value(value: Any, schema: Schema, name: str | int) -> Any:  # noqa: ANN401 - JSON
    part = schema.part(name)
    if type(value) is list and part.list is not None:
        return [_prune_value(item, schema, part.list) for item in value]
    if type(value) is not dict or (part.fields is None and part.map is None):
        return as_stored(value)
    return {
        key: _prune_value(item, schema, below)
        for key, item in value.items()
        if item is not None and (below := part.below(key)) is not None
    }
