"""How a script's functions get to a worker, without PyTorch."""

import os
import subprocess
import sys
import textwrap

import fleet

SCRIPT = """
    from zerofleet import task
    {imports}
    def build():
        return word

    def loss(model, batch):
        return 0, 1

    word = "seven"
    if __name__ == "__main__":
        task.write(task.Task(build, [1, 2], loss), "task.pickle")
    """
READ = "from zerofleet import task; print(task.read('task.pickle').build())"


def python(folder, *arguments, **options):
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=fleet.environment(), capture_output=True, text=True,
                          timeout=100, **options)


def test_a_script_may_be_a_module_that_python_runs(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    text = SCRIPT.format(imports="from .other import number")
    for name, text in (("__init__", ""), ("other", "number = 7\n"), ("script", text), ("__main__", text)):
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    for module in ("mine.script", "mine"):
        done = python(tmp_path, "-m", module)
        assert done.returncode == 0, done.stderr
        done = python(tmp_path, "-c", READ)
        assert done.stdout == "seven\n", done.stderr
        os.remove(tmp_path / "task.pickle")


def test_a_script_is_read_by_its_path(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT.format(imports="")))
    assert python(tmp_path, "script.py").returncode == 0
    assert python(tmp_path, "-c", READ).stdout == "seven\n"


def test_what_is_in_no_file_is_refused_by_name(tmp_path):
    done = python(tmp_path, "-", input=textwrap.dedent(SCRIPT.format(imports="")))
    last = done.stderr.strip().splitlines()[-1]
    assert "build: build is defined in no file, so that a worker cannot import it" in last, done.stderr
