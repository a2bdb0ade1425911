"""Reads the mutants of tests/mutants/*.toml and checks that each still applies to the tree. README.md has the format.

`./run.py --check` runs these checks alone; so does the test mutants_apply.
"""
import dataclasses
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILDS = ("cpu", "emulated")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One faulty edit, and the test that must turn red under it."""
    room: str  # the name of the file it was read from, without .toml
    name: str
    file: str
    find: str
    replace: str
    effect: str
    target: str = "zerofleet"  # what ninja builds
    ctest: str = ""  # the test to run, where it isn't `target`
    filter: str = ""  # --gtest_filter of a GoogleTest binary; ClassName.test_name of an integration test
    build: str = "cpu"
    survives: str = ""  # why no test can turn red
    timeout_seconds: int = 0  # 0: from how long the test takes unmutated

    @property
    def test(self):
        return self.ctest or self.target


REQUIRED = [field.name for field in dataclasses.fields(Mutant) if field.default is dataclasses.MISSING and field.name != "room"]
TYPES = {field.name: field.type for field in dataclasses.fields(Mutant) if field.name != "room"}


class BadEntry(Exception):
    """An entry that isn't as README.md says; the text names the file and the entry."""


def parse(room, text):
    """The mutants of one file's text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadEntry(f"{room}.toml: {error}") from error
    if set(document) - {"mutant"}:
        raise BadEntry(f"{room}.toml: unknown table {sorted(set(document) - {'mutant'})[0]!r}; entries are [[mutant]]")
    mutants = []
    for number, fields in enumerate(document.get("mutant", []), 1):
        where = f"{room}.toml: {fields.get('name', f'mutant {number}')}"
        for key, value in fields.items():
            if key not in TYPES:
                raise BadEntry(f"{where}: unknown field {key!r}; the fields are {', '.join(TYPES)}")
            if not isinstance(value, TYPES[key]):
                raise BadEntry(f"{where}: {key} must be a {TYPES[key].__name__}, got {value!r}")
        missing = [key for key in REQUIRED if key not in fields]
        if missing:
            raise BadEntry(f"{where}: {missing[0]} is missing")
        if "target" not in fields and "ctest" not in fields:
            raise BadEntry(f"{where}: target is missing")
        if fields.get("build", "cpu") not in BUILDS:
            raise BadEntry(f"{where}: build must be one of {', '.join(BUILDS)}, got {fields['build']!r}")
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fields["name"]):
            raise BadEntry(f"{where}: a name is lower-case words joined by hyphens")
        if fields["find"] == fields["replace"]:
            raise BadEntry(f"{where}: replace is the same text as find")
        mutants.append(Mutant(room=room, **fields))
    return mutants


def check(mutants, read, tests, cases):
    """What is wrong with entries that parse: lines of text. `read` gives a path's text, or None where there is no such
    file; `tests` holds the names of the tests and targets that the build files define, `cases` those of single test cases."""
    names = {}
    for mutant in mutants:
        where = f"{mutant.room}.toml: {mutant.name}"
        if mutant.name in names:
            yield f"{where}: the name is also used in {names[mutant.name]}.toml"
        names[mutant.name] = mutant.room
        text = read(mutant.file)
        if text is None:
            yield f"{where}: there is no file {mutant.file}"
        elif text.count(mutant.find) != 1:
            yield f"{where}: find occurs {text.count(mutant.find)} times in {mutant.file}, must be once"
        for target in mutant.target.split():
            if target not in tests:
                yield f"{where}: no CMakeLists.txt defines a target {target}"
        if mutant.test not in tests:
            yield f"{where}: no CMakeLists.txt defines a test {mutant.test}"
        for pattern in mutant.filter.split("-")[0].split(":"):
            if pattern and not any(meet(pattern, case) for case in cases):
                yield f"{where}: no test case is called {pattern}"


def read_all(root=ROOT):
    """Every mutant of the tree, in the order of the files' names."""
    mutants = []
    for path in sorted((root / "tests" / "mutants").glob("*.toml")):
        mutants += parse(path.stem, path.read_text(encoding="utf-8"))
    return mutants


def words_of_build_files(root=ROOT):
    """Every word of every CMakeLists.txt: more than the names of targets and tests, and enough to notice that one is gone."""
    lists = [path for path in root.rglob("CMakeLists.txt") if not path.relative_to(root).parts[0].startswith("build")]
    return {word for path in lists for word in re.findall(r"[A-Za-z0-9_]+", path.read_text(encoding="utf-8"))}


def meet(left, right):
    """Whether some text matches both patterns, whose only wildcard is `*`."""
    if not left or not right:
        return set(left + right) <= {"*"}
    if left[0] == "*":
        return meet(left[1:], right) or meet(left, right[1:])
    if right[0] == "*":
        return meet(right, left)
    return left[0] == right[0] and meet(left[1:], right[1:])


def patterns_of_cases(sources, scripts):
    """Patterns of what GoogleTest calls the test cases in C++ `sources`, and unittest those in Python `scripts`. A parametrised
    suite is taken to be instantiated under every prefix there is, with parameters that only a run knows."""
    cases = set()
    prefixes = {prefix for text in sources for prefix in re.findall(r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+)", text)}
    for text in sources:
        for kind, suite, name in re.findall(r"^ *(TYPED_TEST|TEST|TEST_F|TEST_P)\(\s*(\w+),\s*(\w+)\)", text, re.MULTILINE):
            if kind == "TEST_P":
                cases |= {f"{prefix}/{suite}.{name}/*" for prefix in prefixes}
            else:
                cases.add(f"{suite}/*.{name}" if kind == "TYPED_TEST" else f"{suite}.{name}")
    for text in scripts:
        for body in re.split(r"^class ", text, flags=re.MULTILINE)[1:]:
            suite = re.match(r"\w+", body)[0]
            cases |= {suite} | {f"{suite}.{name}" for name in re.findall(r"^    def (test_\w+)", body, re.MULTILINE)}
    return cases


def cases_of_tree(root=ROOT):
    def texts(pattern):
        return [path.read_text(encoding="utf-8") for path in sorted(root.rglob(pattern))
                if not path.relative_to(root).parts[0].startswith("build")]
    return patterns_of_cases(texts("*.cc") + texts("*.h"), texts("*.py"))


def check_tree(root=ROOT):
    def read(path):
        return (root / path).read_text(encoding="utf-8") if (root / path).is_file() else None
    mutants = read_all(root)
    return mutants, list(check(mutants, read, words_of_build_files(root), cases_of_tree(root)))


def self_test():
    """Each rule must see its own breach, and a good entry must pass."""
    good = dict(name='"a-b"', file='"x.cc"', find='"one"', replace='"two"', effect='"wrong sums"', target='"x_test"')

    def text_of(**changes):
        fields = {key: value for key, value in {**good, **changes}.items() if value}
        return "[[mutant]]\n" + "\n".join(f"{key} = {value}" for key, value in fields.items()) + "\n"

    def read(path):
        return {"x.cc": "one three three"}.get(path)
    cases = patterns_of_cases(
        ["TEST(A, B) {}\n  TEST_F(C, D) {\nTEST_P(E, F) {\nTYPED_TEST(G, H) {\n", "INSTANTIATE_TEST_SUITE_P(P, E,"],
        ["class I(Base):\n    def test_j(self):\n"])
    assert cases == {"A.B", "C.D", "P/E.F/*", "G/*.H", "I", "I.test_j"}, cases
    assert list(check(parse("x", text_of()), read, {"x_test"}, cases)) == []
    assert list(check(parse("x", text_of(filter='"A.*:C.D:P/E.*F/ucx*-C.E"')), read, {"x_test"}, cases)) == []
    assert parse("x", text_of(target=None, ctest='"resume"'))[0].test == "resume"
    for changes in (dict(name=None), dict(effect=None), dict(target=None), dict(find="3"), dict(replace='"one"'),
                    dict(name='"A b"'), dict(build='"gpu"'), dict(spell='"x"'), dict(find="")):
        try:
            parse("x", text_of(**changes))
        except BadEntry:
            continue
        raise AssertionError(f"an entry with {changes} was taken")
    for changes in (dict(file='"y.cc"'), dict(find='"three"'), dict(find='"four"'), dict(target='"y_test"'), dict(ctest='"y"'),
                    dict(filter='"A.C"'), dict(filter='"A.*:Q/E.*/ucx*"')):
        assert list(check(parse("x", text_of(**changes)), read, {"x_test"}, cases)), f"an entry with {changes} passed"
    assert list(check(parse("x", text_of()) + parse("y", text_of()), read, {"x_test"}, cases)), "a name used twice passed"
