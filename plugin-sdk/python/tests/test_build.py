"""The preparation of a project for the compiler."""

import pathlib
import tempfile
import types
import unittest
import unittest.mock

import build


class LayOut(unittest.TestCase):
    def test_environments_and_what_builds_made_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            project = top / "project"
            for name in ("a.py", "lib/tests/b.py", ".venv/x.py", "tests/y.py", "target/z.py", "plugin.wasm", "w/c.wit"):
                file = project / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("")
            stale = top / "sdk/perpend/__init__.py"
            stale.parent.mkdir(parents=True)
            stale.write_text("")
            options = types.SimpleNamespace(project=project, wit=project / "w", scratch=top / "scratch")
            build.lay_out(options, top / "app", top / "sdk")
            there = {str(file.relative_to(top / "app")) for file in (top / "app").rglob("*.py")}
            self.assertEqual(there, {"a.py", "lib/tests/b.py"})
            self.assertTrue((top / "sdk/perpend_plugin/component.py").exists())
            self.assertFalse(stale.exists(), "it would be imported")
            self.assertTrue((top / "scratch/wit/c.wit").exists())
            self.assertFalse((top / "app/plugin.wasm").exists())


class Texts(unittest.TestCase):
    def test_the_module_that_is_compiled_takes_nobodys_name(self):
        taken = {build.SDK, "perpend", "evaluators", build.WORLD.replace("-", "_"), "wit_world"}
        self.assertNotIn(build.MAIN, taken)

    def test_the_world_has_what_the_evaluators_need_and_nothing_else(self):
        plain = build.world_text({"capabilities": [], "checks_config": False})
        self.assertNotIn("model", plain)
        self.assertNotIn("config-check", plain)
        full = build.world_text({"capabilities": ["model", "trace"], "checks_config": True})
        imports = ("import model;", "import trace-reader;", "import session-reader;", "import run-reader;")
        for line in (*imports, "export config-check;"):
            self.assertIn(line, full)

    def test_items_reach_the_module_as_they_are(self):
        items = [{"output": "it's \"quoted\" \\ \n é"}]
        text = build.main_text("evaluators", {"checks_config": False}, items)
        seen = []
        stand_in = types.SimpleNamespace(component=types.SimpleNamespace(Evaluator=None, ready=seen.append))
        import sys

        names = {"evaluators": types.ModuleType("evaluators"), "perpend_plugin.component": stand_in.component}
        with unittest.mock.patch.dict(sys.modules, names):
            exec(text, {})
        self.assertEqual(seen, [items])

    def test_lines_that_are_no_items_are_passed_over(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "items.jsonl"
            file.write_text('{"id": 1}\n\nnot json\n[1]\n{"id": 2}\n{"id": 3}\n{"id": 4}\n')
            self.assertEqual([item["id"] for item in build.samples(file)], [1, 2, 3])
            self.assertEqual(build.samples(pathlib.Path(folder) / "none"), [])


if __name__ == "__main__":
    unittest.main()
