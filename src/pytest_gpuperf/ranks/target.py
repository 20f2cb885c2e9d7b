"""A module-level function named so that another process can load the same one."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """Where a function or class is found.

    Attributes
    ----------
    path
        The file that defines it.
    qualname
        Its name in that file's module: one identifier, since only module level is importable.
    module
        The name its module has here. Where importing that name leads to the same file the module
        is imported by name, so that its relative imports work; else it is loaded from the file.
    """

    path: str
    qualname: str
    module: str = ""

    @classmethod
    def of(cls, function: Callable[..., Any], *, role: str = "the function") -> Target:
        """The target that names `function`; `role` is what an error calls it.

        Raises
        ------
        ValueError
            A lambda, a nested function, a method, a partial or anything else that another process
            cannot find by the name of its file and its own.
        """
        module_name = getattr(function, "__module__", None)
        qualname = getattr(function, "__qualname__", None)
        mend = "; define it with def at the top level of the test module"
        if not callable(function):
            raise ValueError(f"{role} is not callable: {function!r}")
        if not isinstance(qualname, str) or not isinstance(module_name, str):
            kind = type(function).__name__
            raise ValueError(f"{role} is a {kind} object, which other processes cannot load{mend}")
        if getattr(function, "__self__", None) is not None:
            raise ValueError(f"{role} {qualname} is a bound method{mend}")
        if "<lambda>" in qualname:
            raise ValueError(f"{role} is a lambda, which other processes cannot load{mend}")
        if "<locals>" in qualname:
            raise ValueError(f"{role} {qualname} is defined inside another function{mend}")
        if "." in qualname:
            raise ValueError(f"{role} {qualname} is defined inside a class{mend}")
        module = sys.modules.get(module_name)
        names = vars(module) if module is not None else getattr(function, "__globals__", {})
        if names.get(qualname) is not function:
            raise ValueError(
                f"{role} {qualname} is not what {module_name}.{qualname} holds "
                f"(a decorator or an assignment replaced it){mend}"
            )
        file = names.get("__file__")
        if not isinstance(file, str):
            raise ValueError(f"{role} {qualname} has no source file ({module_name}){mend}")
        return cls(
            str(Path(file).resolve()), qualname, "" if module_name == "__main__" else module_name
        )

    def to_json(self) -> dict[str, str]:
        """The target as plain JSON types."""
        return {"path": self.path, "qualname": self.qualname, "module": self.module}

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> Target:
        """The target that :meth:`to_json` wrote."""
        return cls(raw["path"], raw["qualname"], raw.get("module", ""))

    def load(self) -> Callable[..., Any]:
        """The function itself, its module imported here.

        Raises
        ------
        ImportError
            The module has no such name. What the module itself raises passes through.
        """
        module = self._imported() or self._from_file()
        try:
            loaded: Callable[..., Any] = getattr(module, self.qualname)
        except AttributeError:
            raise ImportError(f"{self.path} has no {self.qualname!r}") from None
        return loaded

    def _imported(self) -> ModuleType | None:
        """The module by its own name, or None where that name does not lead to the file."""
        if not self.module:
            return None
        path = Path(self.path)
        parts = self.module.split(".")
        stem = path.parent if path.name == "__init__.py" else path.with_suffix("")
        root = stem.parents[len(parts) - 1] if len(parts) <= len(stem.parents) else None
        # pytest's importlib mode imports tests.x.test_y without its root on sys.path; at the end
        # of the path the root shadows nothing.
        if stem.parts[-len(parts) :] == tuple(parts) and root and str(root) not in sys.path:
            sys.path.append(str(root))
        spec = None
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(self.module)
        if spec is None or spec.origin is None or Path(spec.origin).resolve() != path:
            return None
        return importlib.import_module(self.module)

    def _from_file(self) -> ModuleType:
        """The module loaded from its file, under its own name where that is free."""
        name = self.module or Path(self.path).stem
        if name in sys.modules:
            name = f"gpuperf_target_{Path(self.path).stem}"
        spec = importlib.util.spec_from_file_location(name, self.path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.path} cannot be loaded as a Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
