"""Makes a component of a folder with evaluators; `perpend plugin build` runs this.

componentize-py runs the modules once and keeps the interpreter's memory as the component. Everything is put
together in a scratch folder first: the tool searches the folders it is given for native extensions, and would
find those of a virtual environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

#: The package of the SDK, in the folder of this file.
SDK = "perpend_plugin"
#: Folders of a project that hold no part of the plug-in.
LEFT_OUT = {"perpend", "target", "tests", "venv"}
#: Compiled extensions of packages: nothing can load them in a component.
NATIVE = {".so", ".pyd", ".dylib", ".dll"}
#: Items that evaluators are run with while the plug-in is built.
N_SAMPLES = 3
#: The compiled module. It is in the folder of the project's modules and must not have the name of an imported module.
MAIN = "perpend_plugin_main"
WORLD = "python-plugin"
#: What is imported for a capability.
INTERFACES = {"model": ["model"], "trace": ["trace-reader", "session-reader", "run-reader"]}


def main() -> None:
    """Builds what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=Path, required=True, help="the folder with the evaluators")
    parser.add_argument("--wit", type=Path, required=True, help="the contract")
    parser.add_argument("--scratch", type=Path, required=True, help="for what is made on the way")
    parser.add_argument("--out", type=Path, required=True, help="the component")
    parser.add_argument("--entry", default="evaluators", help="the module with the evaluators")
    parser.add_argument("--componentize", default="componentize-py", help="the program componentize-py")
    arguments = parser.parse_args()
    for name in ("project", "wit", "scratch", "out"):
        setattr(arguments, name, getattr(arguments, name).resolve())
    try:
        build(arguments)
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
    except OSError as error:
        raise SystemExit(str(error)) from None


def build(options: Any) -> None:
    """From sources to the component."""
    entry = options.entry.removesuffix(".py")
    app, sdk, packages = (options.scratch / name for name in ("app", "sdk", "packages"))
    lay_out(options, app, sdk)
    install(options.project / "requirements.txt", packages)

    say("reading the evaluators")
    folders = [app, sdk, packages]
    needs = needs_of(entry, folders)
    world = options.scratch / "wit" / f"{WORLD}.wit"
    world.write_text(world_text(needs))
    main = app / f"{MAIN}.py"
    main.write_text(main_text(entry, needs, samples(options.project / "items.jsonl")))

    say("running componentize-py")
    # An environment without packages, so that installed packages are not found.
    empty = options.scratch / "empty"
    (empty / "lib/site-packages").mkdir(parents=True, exist_ok=True)
    command = [options.componentize, "--quiet", "--wit-path", world.parent, "--world", WORLD, "componentize", MAIN]
    for folder in folders:
        command += ["--python-path", folder]
    command += ["--output", options.out]
    subprocess.run(command, cwd=app, env={**os.environ, "VIRTUAL_ENV": str(empty)}, check=True)


def say(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def lay_out(options: Any, app: Path, sdk: Path) -> None:
    """The files of the project, the contract, and a copy of the SDK, because loading it writes compiled files."""
    wit = options.scratch / "wit"
    if sdk.exists():
        # A package in there that is of another SDK would be found too.
        shutil.rmtree(sdk)
    for source, target, left_out in [
        (options.project, app, LEFT_OUT),
        (options.wit, wit, set()),
        (Path(__file__).parent / SDK, sdk / SDK, set()),
    ]:
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(source, target, ignore=unwanted(source, left_out))


def unwanted(top: Path, left_out: set[str]) -> Any:
    """Leaves out what is hidden, what a build made, and at the top what is named."""

    def names(folder: str, entries: list[str]) -> set[str]:
        at_top = left_out if Path(folder) == top else set()
        return {
            name
            for name in entries
            if name.startswith(".") or name.endswith(".wasm") or name == "__pycache__" or name in at_top
        }

    return names


def install(requirements: Path, packages: Path) -> None:
    """The packages of `requirements.txt`, anew only when it changed; without compiled extensions."""
    contents = requirements.read_text() if requirements.exists() else ""
    mark = packages / ".installed"
    if mark.exists() and mark.read_text() == contents:
        return
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir(parents=True)
    lines = (line.strip() for line in contents.splitlines())
    if any(line and not line.startswith("#") for line in lines):
        say("installing the packages of requirements.txt")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        # Its standard output has warnings about versions of packages elsewhere.
        subprocess.run([*pip, "--target", packages, "--requirement", requirements], check=True, stdout=sys.stderr)
        for file in list(packages.rglob("*")):
            if file.suffix in NATIVE:
                file.unlink()
    mark.write_text(contents)


def needs_of(entry: str, folders: list[Path]) -> dict[str, Any]:
    """Loads the evaluators in the Python at hand: the imports of the component follow from what they need."""
    path = os.pathsep.join(map(str, folders))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", SDK, entry]
    output = subprocess.run(command, cwd=folders[0], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    # A module may print while it is loaded: the answer is the last line.
    return json.loads(output.stdout.strip().splitlines()[-1])


def world_text(needs: dict[str, Any]) -> str:
    """A world with exactly what the evaluators need."""
    members = ["include scorer;"]
    for capability in needs["capabilities"]:
        members += [f"import {interface};" for interface in INTERFACES[capability]]
    if needs["checks_config"]:
        members.append("export config-check;")
    lines = "".join(f"    {member}\n" for member in members)
    return f"package perpend:evaluator@1.0.0;\n\nworld {WORLD} {{\n{lines}}}\n"


def main_text(entry: str, needs: dict[str, Any], items: list[Any]) -> str:
    """The module that is compiled: the evaluators, the exports, and a few items to warm up with."""
    exports = "ConfigCheck, Evaluator, ready" if needs["checks_config"] else "Evaluator, ready"
    return (
        f"import json\n\nimport {entry}\nfrom {SDK}.component import {exports}\n\n"
        f"ready(json.loads({json.dumps(items)!r}))\n"
    )


def samples(file: Path) -> list[Any]:
    """The first items of `items.jsonl`; lines that are none are for `perpend plugin run` to complain about."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            item = json.loads(line)
        except ValueError:
            continue
        if isinstance(item, dict):
            found.append(item)
    return found[:N_SAMPLES]


if __name__ == "__main__":
    main()
