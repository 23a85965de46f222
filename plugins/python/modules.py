"""The standard library for evaluators, loaded while the plug-in is built because a component has no files at run
time."""

import builtins
import importlib
import importlib.abc
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter

#: The available modules. Threads, processes, files and sockets do not exist in a component.
OFFERED = """
    __future__ abc array ast base64 binascii bisect builtins calendar cmath codecs collections
    collections.abc colorsys contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib
    enum errno fnmatch fractions functools gc graphlib hashlib heapq hmac html html.entities
    html.parser inspect io ipaddress itertools json json.decoder json.encoder keyword linecache locale
    logging math numbers operator os os.path pathlib posixpath pprint queue random re reprlib secrets shlex
    statistics string struct sys textwrap threading time timeit token tokenize tomllib traceback types typing
    unicodedata unittest urllib.parse uuid warnings weakref xml.etree.ElementTree xml.sax.saxutils zlib
""".split()

_NO_NETWORK = frozenset(
    "socket _socket ssl _ssl select selectors socketserver http urllib.request urllib.error urllib.robotparser"
    " ftplib smtplib poplib imaplib xmlrpc wsgiref requests httpx aiohttp".split()
)
_NO_PROCESSES = frozenset("subprocess multiprocessing ctypes concurrent asyncio".split())
_NO_FILES = frozenset("tempfile shutil glob fileinput sqlite3 dbm shelve mmap zipfile".split())


def load() -> None:
    """Imports all available modules."""
    for name in OFFERED:
        importlib.import_module(name)
    # Loaded lazily by the modules above.
    for name in ("_strptime", "encodings.idna", "stringprep", "_pydatetime", "_colorize"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def _is_in(fullname: str, names: frozenset[str]) -> bool:
    return fullname in names or fullname.split(".")[0] in names


class Refusal(importlib.abc.MetaPathFinder):
    """Raises an error with the reason why a module is unavailable: for `names`, or for any module."""

    def __init__(self, names: frozenset[str] | None = None) -> None:
        self._names = names

    def find_spec(self, fullname, path=None, target=None):
        if self._names is None or _is_in(fullname, self._names):
            raise ModuleNotFoundError(f"no module {fullname!r}: {reason(fullname)}", name=fullname)
        return None


def reason(fullname: str) -> str:
    """The reason why a module is unavailable."""
    if _is_in(fullname, _NO_NETWORK):
        return "evaluators have no network"
    if _is_in(fullname, _NO_PROCESSES):
        return "evaluators have no processes and no event loops"
    if _is_in(fullname, _NO_FILES):
        return "evaluators have no files"
    if fullname.split(".")[0] in sys.stdlib_module_names:
        return "this part of the standard library is not in the evaluator's interpreter"
    return "evaluators have the standard library only, no packages"


def _no_files(file, *arguments, **settings):
    raise PermissionError(f"{file!r} cannot be opened: evaluators have no files")


def close() -> None:
    """Restricts imports to loaded, built-in and frozen modules, without the refused ones."""
    refused = _NO_NETWORK | _NO_PROCESSES | _NO_FILES
    for name in list(sys.modules):
        if _is_in(name, refused):
            # Another module loaded it. The import must fail, not the first use.
            del sys.modules[name]
    sys.meta_path[:] = [Refusal(refused), BuiltinImporter, FrozenImporter, Refusal()]
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    builtins.open = _no_files
