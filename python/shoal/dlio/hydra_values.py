"""What the text of an override means, by Hydra's rules (1.3), which are not those of YAML: 1e-3 is a number, off is a string.

Read are scalars, quoted strings, lists, mappings and the casts int(), float(), str() and bool(). Sweeps are refused, and so is each
function that is not known here. References (${...}) stay strings; resolved() computes them once all overrides are in place."""

import datetime
import os
import re

_INT = re.compile(r"[+-]?(0|[1-9](_?\d)*)$", re.A)
_WHOLE, _DIGITS = r"(0|[1-9](_?\d)*)", r"\d(_?\d)*"
_FLOAT = re.compile(r"[+-]?((%s?\.%s|%s\.)([eE][+-]?%s)?|%s[eE][+-]?%s|inf|nan)$" % (_WHOLE, _DIGITS, _WHOLE, _DIGITS, _WHOLE, _DIGITS), re.I | re.A)
_PLAIN = re.compile(r"[A-Za-z0-9_/\-\\+.$%*@?|: \t]")
_ESCAPED = "\\()[]{}:=, \t"
_REFERENCE = re.compile(r"(?<!\\)\$\{[^${}]+\}")
_IN_WORD = re.compile(r"\\?\$\{[^${}]+\}")  # a backslash makes it a string
_FUNCTION = re.compile(r"[ \t]*([A-Za-z_]\w*)\(")
_SWEEPS = ("choice", "range", "interval", "glob", "tag", "sort", "shuffle", "extend_list")


class Malformed(ValueError):
    """A text that Hydra does not take, or that means something which is not served."""


def scalar(text):
    """A word that has no quotes."""
    lower = text.lower()
    if lower in ("true", "false"):
        return lower == "true"
    if lower == "null":
        return None
    if _INT.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text


def _to_bool(value):
    if isinstance(value, str) and value.lower() not in ("true", "false"):
        raise Malformed("'%s' is not True or False" % value)
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def _to_text(value):
    if value is None:
        raise Malformed("null has no text")
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASTS = {"int": int, "float": float, "str": _to_text, "bool": _to_bool}


def _cast(name, value):
    if isinstance(value, list):
        return [_cast(name, one) for one in value]
    if isinstance(value, dict):
        return {key: _cast(name, one) for key, one in value.items()}
    try:
        return _CASTS[name](value)
    except (ValueError, TypeError, OverflowError):
        raise Malformed("%s() cannot take '%s'" % (name, value)) from None


class _Reader:
    def __init__(self, text):
        self._text, self._at = text, 0

    def _next(self):
        return self._text[self._at:self._at + 1]

    def _blanks(self):
        while self._next() and self._next() in " \t":
            self._at += 1

    def _take(self, character):
        if self._next() != character:
            raise Malformed("%s expected at '%s'" % (repr(character), self._text[self._at:]) if self._next() else "it ends before %r" % character)
        self._at += 1

    def _comma(self, end):
        if not self._next():
            raise Malformed("a closing %s is missing" % end)
        self._take(",")

    def whole(self):
        value = self._element("")
        if self._next() == ",":
            raise Malformed("a list of values needs brackets, [A,B], and a comma in a string needs quotes")
        if self._next():
            raise Malformed("%r needs quotes, or a backslash before it" % self._next())
        return value

    def _element(self, ends):
        """A value, up to the end of the text, a comma, or one of these characters."""
        self._blanks()
        function = _FUNCTION.match(self._text, self._at)
        if self._next() and self._next() in "'\"":
            value = self._quoted()
        elif self._next() == "[":
            value = self._list()
        elif self._next() == "{":
            value = self._mapping()
        elif function:
            value = self._call(function)
        else:
            return scalar(self._word(ends))
        self._blanks()
        return value

    def _quoted(self):
        quote, text = self._next(), ""
        self._at += 1
        while self._next() != quote:
            if not self._next():
                raise Malformed("a closing %s is missing" % quote)
            slashes = re.compile(r"\\*").match(self._text, self._at).group()
            self._at += len(slashes)
            if slashes and self._next() == quote:  # only before a quote a backslash escapes
                text += "\\" * (len(slashes) // 2)
                if len(slashes) % 2:
                    text += quote
                    self._at += 1
            elif slashes:
                text += slashes
            else:
                text += self._next()
                self._at += 1
        self._at += 1
        return text

    def _list(self):
        self._take("[")
        values = []
        self._blanks()
        while self._next() != "]":
            if values:
                self._comma("]")
            values.append(self._element("]"))
        self._at += 1
        return values

    def _mapping(self):
        self._take("{")
        values = {}
        self._blanks()
        while self._next() != "}":
            if values:
                self._comma("}")
            self._blanks()
            key = scalar(self._word(":"))
            self._take(":")
            values[key] = self._element("}")
        self._at += 1
        return values

    def _call(self, found):
        name, self._at = found[1], found.end()
        if name in _SWEEPS:
            raise Malformed("%s() makes a sweep, and Shoal runs one workload" % name)
        if name not in _CASTS:
            raise Malformed("there is no function %s() here; a parenthesis in a string needs quotes" % name)
        value = _cast(name, self._element(")"))
        self._take(")")
        return value

    def _word(self, ends):
        """The characters of a value without quotes, without the blanks around it."""
        parts, solid = [], 0  # solid: up to where blanks are part of it
        while self._next() and self._next() not in "," + ends:
            reference = _IN_WORD.match(self._text, self._at)
            if reference:
                parts.append(reference.group())
                self._at = reference.end()
            elif self._next() == "\\" and self._text[self._at + 1:self._at + 2] and self._text[self._at + 1] in _ESCAPED:
                parts.append(self._text[self._at + 1])
                self._at += 2
            elif not _PLAIN.match(self._next()):
                break
            else:
                parts.append(self._next())
                self._at += 1
                if parts[-1] in " \t":
                    continue
            solid = len(parts)
        if not parts[:solid]:
            raise Malformed("a value is missing at '%s'" % self._text[self._at:] if self._next() else "a value is missing at its end")
        return "".join(parts[:solid])


def value_of(text):
    """What an override's value means. Raises Malformed."""
    return _Reader(text).whole() if text.strip(" \t") else ""


# ---- References


def _environment(argument):
    name, comma, default = argument.partition(",")
    found = os.environ.get(name.strip())
    if found is None and not comma:
        raise Malformed("there is no variable %s in the environment" % name)
    return found if found is not None else default.strip()


def _now(form):
    return datetime.datetime.now().strftime(form)


_RESOLVERS = {"oc.env": _environment, "now": _now}


class _Resolver:
    def __init__(self, root):
        self._root, self._busy = root, []

    def _at(self, path, where):
        """The value that a reference names: from the top, or with dots in front from where it stands."""
        dots = len(path) - len(path.lstrip("."))
        keys = [*where[:len(where) - dots], *path.lstrip(".").split(".")] if dots else path.split(".")
        value = self._root
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else value[int(key)] if isinstance(value, list) and key.isdigit() else None
            if value is None:
                raise Malformed("there is no '%s'" % path)
        if keys in self._busy:
            raise Malformed("it refers to itself")
        self._busy.append(keys)
        value = self.resolve(value, keys)
        self._busy.pop()
        return value

    def _reference(self, text, where):
        name, colon, argument = text.partition(":")
        if not colon:
            return self._at(text, where)
        if name not in _RESOLVERS:
            raise Malformed("there is no resolver '%s' here" % name)
        return _RESOLVERS[name](argument)

    def resolve(self, value, where=()):
        if isinstance(value, dict):
            return {key: self.resolve(one, [*where, key]) for key, one in value.items()}
        if isinstance(value, list):
            return [self.resolve(one, [*where, str(i)]) for i, one in enumerate(value)]
        return self._text(value, where) if isinstance(value, str) else value

    def _text(self, text, where):
        def target(found):
            try:
                return self._reference(found.group()[2:-1], where)
            except Malformed as e:
                raise Malformed("%s of %s: %s" % (found.group(), ".".join(where), e)) from None

        if _REFERENCE.search(text) and "${" in _REFERENCE.sub("", text):
            raise Malformed("'%s' of %s: a reference inside of another is not served" % (text, ".".join(where)))
        whole = _REFERENCE.fullmatch(text)
        if whole:
            return target(whole)
        return _REFERENCE.sub(lambda found: str(target(found)), text).replace("\\${", "${")


def resolved(tree):
    """The same with all references replaced by what they refer to. Raises Malformed."""
    return _Resolver(tree).resolve(tree)
