"""As much of JSON Schema as our schemas use; a keyword that is not known here is an error, not ignored."""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
REMARKS = ("$schema", "$defs", "title", "description")


def validate(value, schema, root=None, where="$"):
    """Raises AssertionError that says where `value` differs."""
    root = root or schema
    for keyword, wanted in schema.items():
        if keyword in REMARKS:
            continue
        if keyword == "$ref":
            target = root
            for part in wanted.removeprefix("#/").split("/"):
                target = target[part]
            validate(value, target, root, where)
        elif keyword == "type":
            is_number_as_bool = isinstance(value, bool) and wanted != "boolean"
            assert isinstance(value, TYPES[wanted]) and not is_number_as_bool, f"{where} is no {wanted}: {value!r}"
        elif keyword == "enum":
            assert value in wanted, f"{where} is none of {wanted}: {value!r}"
        elif keyword == "minimum":
            assert value >= wanted, f"{where} is less than {wanted}: {value!r}"
        elif keyword == "pattern":
            assert re.search(wanted, value), f"{where} does not match {wanted}: {value!r}"
        elif keyword == "required":
            missing = [name for name in wanted if name not in value]
            assert not missing, f"{where} lacks {missing}"
        elif keyword == "properties":
            for name, inner in wanted.items():
                if name in value:
                    validate(value[name], inner, root, f"{where}.{name}")
        elif keyword == "additionalProperties":
            unknown = [] if wanted else [name for name in value if name not in schema["properties"]]
            assert not unknown, f"{where} has {unknown}, which the schema does not know"
        elif keyword == "items":
            for number, item in enumerate(value):
                validate(item, wanted, root, f"{where}[{number}]")
        else:
            raise NotImplementedError(f"{keyword} at {where}")
