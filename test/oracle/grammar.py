"""Small random templates with every statement, filter, test and method that chat templates use.

Most expressions have the type that their place needs, so that most templates render; some do not,
so that errors are compared too.  Values that print as an address or an object of Python are left
out: generators, views, macros.
"""
import random
import re

VARIABLES = {
    "text": "Hello, World", "blank": "  pad\t\n", "empty": "", "unicode": "Straße ÉCOLE ǅ 日本 e\u0301 İ", "lines": "a\nb\n\n  c\r\nd",
    "csv": "x,y,,z", "html": "<a href=\"x\">&'</a>", "digits": "0042",
    "zero": 0, "one": 1, "seven": 7, "minus": -3, "half": 0.5, "big": 1e16, "tiny": 1e-05, "whole": 2.0,
    "yes": True, "no": False, "nothing": None,
    "numbers": [3, 1, 2, 2], "words": ["b", "A", "c", "a", "B"], "mixed": [1, "1", None, True, 2.5, [], {}], "none_of_it": [],
    "nested": [[1, 2], [3], []], "person": {"name": "Ann", "age": 41, "items": [1, 2], "keys": "k", "tags": ["x", "y"]},
    "bare": {}, "order": {"b": 1, "A": 2, "a": 3, "C": None},
    "people": [{"name": "Ann", "age": 41, "role": "user", "ok": True}, {"name": "bob", "age": 7, "role": "tool", "ok": False},
               {"name": "Cy", "role": "user", "age": None}],
    "messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": "Hi there"}, {"role": "assistant", "content": ""},
                 {"role": "user", "content": [{"type": "text", "text": "part"}]}],
}
BY_TYPE = {
    "str": ["text", "blank", "empty", "unicode", "lines", "csv", "html", "digits", "person.name", "person['name']",
            "messages[0].content", "messages[1]['role']", "person['keys']"],
    "int": ["zero", "one", "seven", "minus", "person.age", "numbers[0]", "numbers[-1]"],
    "float": ["half", "big", "tiny", "whole"],
    "bool": ["yes", "no"], "none": ["nothing"],
    "list": ["numbers", "words", "none_of_it", "person.tags", "person['items']", "mixed", "nested[0]"],
    "dicts": ["people", "messages", "people[:2]", "messages[1:]"],
    "dict": ["person", "bare", "order", "people[0]", "messages[0]"],
    "undefined": ["missing", "person.missing", "person['gone']", "numbers[9]"],
}
LITERALS = {
    "str": ["'a'", '"b\'c"', "'\\n'", "' '", "''", "'é'", "'Hello'", "'%s'", "','", "'a' 'b'"],
    "int": ["0", "1", "2", "-1", "10", "100"], "float": ["0.5", "2.0", "-1.5", "1e3"],
    "bool": ["true", "false", "True", "False"], "none": ["none", "None"],
    "list": ["[]", "[1, 2, 3]", "['x', 'y']", "(1, 2)", "[1, 'a', none]"],
    "dict": ["{}", "{'k': 1}", "{'a': 'b', 'c': [1]}"],
}
TYPES = ["str", "str", "str", "int", "int", "float", "bool", "none", "list", "list", "dict", "dicts", "undefined"]
# {str} is an expression of that type; the rest is text.
FORMS = {
    "str": [
        "{str} + {str}", "{any} ~ {any}", "{str}|trim", "{str}|upper", "{str}|lower", "{str}|capitalize", "{str}|title", "{any}|string",
        "{str}|replace({str}, {str})", "{str}|replace('l', 'L', 1)", "{list}|join", "{list}|join({str})", "{dicts}|join(', ', attribute='name')",
        "{any}|tojson", "{dict}|tojson(indent=2)", "{any}|tojson(ensure_ascii=true)", "{any}|tojson(sort_keys=false)", "{list}|tojson(indent=4)",
        "{str}|indent(2)", "{str}|indent(3, true)", "{str}|indent(width=1, first=false, blank=true)", "{str}[1:]", "{str}[:-1]", "{str}[::-1]",
        "{str}[1:4]", "{str}[0]", "{str}[-2:]", "{str} * 2", "{str}.strip()", "{str}.lstrip()", "{str}.rstrip()", "{str}.strip({str})",
        "{str}.rstrip('\\n')", "{str}.upper()", "{str}.lower()", "{str}.title()", "{str}.capitalize()", "{str}.replace({str}, {str})",
        "{str}.split({str})[0]", "{str}.split()[-1]", "{str}.join({list})", "'%s-%s' % ({any}, {int})", "'%d' % {int}", "{str} if {bool} else {str}",
        "{str} if {bool}", "{undefined}|default({str})", "{str}|default({str}, true)", "{str}|first", "{str}|last",
        "{dict}.get('name', {str})", "{str} or {str}", "{str} and {str}", "({str})", "'{} {}'.format({any}, {any})"],
    "int": [
        "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} // {int}", "{int} % {int}", "-{int}", "{str}|length", "{list}|length",
        "{dict}|length", "{list}|count", "{str}|int", "{float}|int", "{any}|int(7)", "{numbers}|sum", "{numbers}|max", "{numbers}|min",
        "{list}|first", "{int}|abs", "{str}.find({str})", "{str}.count({str})", "{list}[0]", "{int} if {bool} else {int}", "{dict}.get('age')",
        "{undefined}|length", "{list}.index(1)", "{numbers}|sum(start=10)"],
    "float": ["{int} / {int}", "{float} + {int}", "{float} * {float}", "{int}|float", "{str}|float", "{float}|round", "{float}|round(1)", "{int} / 2"],
    "bool": [
        "{any} == {any}", "{any} != {any}", "{int} < {int}", "{int} >= {float}", "{str} < {str}", "{str} in {str}", "{any} in {list}", "{str} not in {dict}",
        "not {any}", "{bool} and {bool}", "{bool} or {bool}", "{any} is defined", "{any} is undefined", "{any} is none", "{any} is not none",
        "{any} is string", "{any} is mapping", "{any} is sequence", "{any} is iterable", "{any} is number", "{any} is integer", "{any} is float",
        "{any} is boolean", "{any} is true", "{any} is false", "{int} is odd", "{int} is even", "{int} is divisibleby 3", "{any} is sameas none",
        "{any} is eq {any}", "{any} is equalto({any})", "{str} is lower", "{str} is upper", "{any} is in {list}", "{any} is callable",
        "{str}.startswith({str})", "{str}.endswith({str})", "{str}.isdigit()", "{str}.isalpha()", "{str}.isspace()", "{str}.isupper()", "1 < {int} < 5",
        "{int} is gt 2", "{int} is le 2"],
    "none": ["{dict}.get('absent')"],
    "list": [
        "{list} + {list}", "{list}[1:]", "{list}[::-1]", "{list}[-1:]", "{str}.split()", "{str}.split({str})", "{str}.split(',', 1)", "{str}.splitlines()",
        "{str}.rsplit(' ', 1)", "{words}|sort", "{numbers}|sort(reverse=true)", "{words}|sort(case_sensitive=true)", "{list}|list", "{str}|list", "{words}|unique|list",
        "{list}|reverse|list", "{list}|map('string')|list", "{dicts}|map(attribute='name')|list", "{words}|map('upper')|list", "{list}|select|list",
        "{list}|reject('none')|list", "{numbers}|select('gt', 1)|list", "{dicts}|selectattr('role', 'equalto', 'user')|list", "{dicts}|selectattr('ok')|list",
        "{dicts}|rejectattr('role', 'eq', 'tool')|list", "{dicts}|selectattr('age', 'defined')|map(attribute='age')|list", "range({int})|list", "range(1, 5)|list",
        "range(5, 0, -2)|list", "{dict}|items|list", "{dict}.items()|list", "{dict}.keys()|list", "{dict}.values()|list", "{dict}|dictsort", "{dict}|list",
        "{dict}|dictsort(by='value')", "[{any}, {any}]", "({any}, {any})", "{list} if {bool} else {list}", "{numbers}|batch(2)|list", "{list}|tojson|list",
        "{dicts}|map(attribute='age', default=0)|list", "{dicts}|sort(attribute='name')|map(attribute='name')|list"],
    "dict": ["dict(a={any})", "{'x': {any}, 'y': {any}}", "{'name': {str}, 'items': {list}}", "{dicts}|first", "{dicts}|last", "{dicts}[0]"],
    "dicts": ["{dicts}[::-1]", "{dicts}|list", "{dicts}|selectattr('role')|list", "[{dict}, {dict}]"],
    "undefined": ["{dict}.absent", "{list}[99]", "{undefined}"],
}
PLACE = re.compile(r"\{(" + "|".join([*FORMS, "any", "numbers", "words"]) + r")\}(\[[^\]]*:)?")
SLIPS = 0.04  # how often an expression is of another type than its place wants


class Grammar:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def expression(self, kind, depth):
        rng = self.rng
        if kind in ("numbers", "words"):
            return kind
        if kind == "any" or rng.random() < SLIPS:
            kind = rng.choice(TYPES)
        if depth > 0 and rng.random() < 0.7:
            return self.fill(rng.choice(FORMS[kind]), depth - 1)
        return rng.choice(BY_TYPE[kind] + LITERALS.get(kind, []))

    def fill(self, form, depth):
        def choose(place):
            kind, sliced = place[1], place[2] or ""
            if sliced:  # of constants Jinja slices while it compiles, and finds no errors then
                inner = self.rng.choice(BY_TYPE[self.rng.choice(TYPES) if self.rng.random() < SLIPS else kind])
            else:
                inner = self.expression(kind, depth)
            # A filter's name may have dots, so what it is applied to must not go on with one.
            closed = place.string[place.end():place.end() + 1] in (".", "[") or self.rng.random() < 0.75
            return (f"({inner})" if closed else inner) + sliced

        return PLACE.sub(choose, form)

    def tag(self, kind, inside):
        """{% inside %} or {{ inside }} with any mark for whitespace."""
        rng = self.rng
        open_mark = rng.choice(("", "", "-", "-", "+" if kind == "%" else ""))
        close_mark = rng.choice(("", "", "-", "-"))
        opener, closer = ("{%", "%}") if kind == "%" else ("{{", "}}")
        return f"{opener}{open_mark} {inside} {close_mark}{closer}"

    def space(self):
        return self.rng.choice(("", "", " ", "\n", "\n  ", "  \n", "\t", "x", "x\n", "\n\n", "é ", "  x  "))

    def output(self, depth, names):
        if names and self.rng.random() < 0.4:
            return self.tag("{", self.rng.choice(names) + self.rng.choice(("", "|string", "|tojson", " ~ '!'", "|length")))
        if self.rng.random() < 0.05:  # last, since what is safe spreads
            return self.tag("{", f"({self.expression('str', depth)})|safe")
        return self.tag("{", self.expression("any", depth))

    def body(self, depth, names):
        return "".join(self.space() + self.statement(depth, names) for _ in range(self.rng.randint(1, 3))) + self.space()

    def statement(self, depth, names):
        rng = self.rng
        if depth == 0:
            return self.output(2, names)
        make = rng.choice((self.output, self.output, self.condition, self.loop, self.assignment, self.captured, self.remembered,
                           self.macro, self.comment, self.raw, self.marked, self.filtered))
        return make(depth, names)

    def condition(self, depth, names):
        parts = [self.tag("%", "if " + self.expression("bool", 2)), self.body(depth - 1, names)]
        if self.rng.random() < 0.4:
            parts += [self.tag("%", "elif " + self.expression("any", 2)), self.body(depth - 1, names)]
        if self.rng.random() < 0.5:
            parts += [self.tag("%", "else"), self.body(depth - 1, names)]
        return "".join(parts) + self.tag("%", "endif")

    def loop(self, depth, names):
        rng = self.rng
        head, inner = rng.choice((
            (f"for i in {self.expression('list', 1)}", ["i"]), (f"for p in {self.expression('dicts', 1)}", ["p", "p.name", "p.role"]),
            ("for k, v in person.items()", ["k", "v"]), ("for k, v in order|dictsort", ["k", "v"]), ("for k in order", ["k"]),
            (f"for i in numbers if i > {self.expression('int', 0)}", ["i"]), ("for m in messages if m.role != 'system'", ["m.content"]),
            (f"for i in range({rng.randint(0, 4)})", ["i"]), ("for a, b in [(1, 2), (3, 4)]", ["a", "b"]), ("for c in text[:3]", ["c"])))
        more = ["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0",
                "loop.previtem", "loop.nextitem", "loop.depth", "loop.cycle('a', 'b')"]
        body = self.body(depth - 1, names + inner + more)
        if rng.random() < 0.25:
            body += self.tag("%", "if " + rng.choice(("loop.index > 1", "loop.first", self.expression("bool", 1)))) + self.tag(
                "%", rng.choice(("break", "continue"))) + self.tag("%", "endif") + self.body(depth - 1, names + inner)
        otherwise = self.tag("%", "else") + self.body(depth - 1, names) if rng.random() < 0.2 else ""
        return self.tag("%", head) + body + otherwise + self.tag("%", "endfor")

    def assignment(self, depth, names):
        name = self.rng.choice(("u", "w"))
        names.append(name)
        target = self.rng.choice((f"{name} = {self.expression('any', 2)}", f"{name}, other = {self.expression('int', 1)}, {self.expression('str', 1)}"))
        return self.tag("%", "set " + target)

    def captured(self, depth, names):
        body = self.body(depth - 1, list(names))
        names.append("caught")
        return self.tag("%", self.rng.choice(("set caught", "set caught | trim | upper"))) + body + self.tag("%", "endset")

    def remembered(self, depth, names):
        parts = [self.tag("%", f"set ns = namespace(n={self.expression('int', 1)}, s='')"),
                 self.tag("%", f"for i in {self.expression('list', 0)}"), self.tag("%", "set ns.n = ns.n + 1"),
                 self.tag("%", "set ns.s = ns.s ~ i"), self.tag("%", "endfor")]
        names += ["ns.n", "ns.s"]
        return "".join(parts)

    def macro(self, depth, names):
        body = self.body(depth - 1, ["a", "b"])
        called = self.rng.choice(("m(1)", "m(1, 'z')", "m('x', b=none)", "m()", "m(a=text)", "m(1)|trim", "m(b=1)", "m(1, 2, 3)"))
        return self.tag("%", "macro m(a, b='dflt')") + body + self.tag("%", "endmacro") + self.tag("{", called)

    def comment(self, depth, names):
        return self.rng.choice(("{# c #}", "{#- c -#}", "  {# c\nd #}\n", "{# {{ x }} {% if %} #}"))

    def raw(self, depth, names):
        return self.tag("%", "raw") + "{{ x }} {% if %} {# y #}" + self.tag("%", "endraw")

    def marked(self, depth, names):
        return self.tag("%", "generation") + self.body(depth - 1, list(names)) + self.tag("%", "endgeneration")

    def filtered(self, depth, names):
        name = self.rng.choice(("upper", "trim", "replace('a', 'b')", "indent(2)", "lower"))
        return self.tag("%", "filter " + name) + self.body(depth - 1, list(names)) + self.tag("%", "endfilter")

    def template(self):
        return self.body(self.rng.randint(0, 2), [])
