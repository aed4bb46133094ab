"""Build and describe the package: Python as it stands, and two C++ libraries made by CMake.

``pip install -e . --no-build-isolation`` puts the libraries into ``tvm_hetero/_lib`` and is
quick the second time (objects stay in ``build/``). ``pip wheel .`` puts them into the wheel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent

TVM_FFI = "apache-tvm-ffi>=0.1.14.post0,<0.1.15"  # 0.1.15 crashes TVM 0.27 in save_json

REQUIRES = [
    "apache-tvm==0.27.*",
    TVM_FFI,
    "networkx",
    "numpy",
    "onnx>=1.21",
    "ortools",
    "pyyaml",
    "rich",
    "safetensors",
    "scipy",
    "typer",
]

EXTRAS = {
    "onnxruntime": ["onnxruntime"],  # to compare with
    "gurobi": ["gurobipy"],  # its pip licence allows 2,000 variables and no production use
    "ray": ["ray>=2.50"],  # several machines (tvm_hetero.cluster)
    # Boards that speak TVM's RPC: their servers and trackers need these, their users nothing.
    "rpc": ["cloudpickle", "psutil", "tornado"],
    "torch": ["torch>=2.6"],  # programs of torch.export
    "text": ["tokenizers"],  # prompts as text, where a model's folder has tokenizer.json
    "test": [
        "cloudpickle", "hypothesis", "mypy", "onnxruntime", "psutil", "pytest", "pytest-xdist",
        "ray>=2.50", "ruff", "torch==2.13.0", "tornado", "transformers>=5", "types-PyYAML",
    ],
    "build": ["cmake>=3.18", "ninja", "setuptools>=65", "wheel", TVM_FFI],
}


def version() -> str:
    """Read the version from the package without importing it (or its dependencies)."""
    text = (ROOT / "tvm_hetero" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__(?:: str)? = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SystemExit('tvm_hetero/__init__.py has no line __version__ = "..."')
    return found.group(1)


def tool(name: str) -> str | None:
    """Find a program on the PATH or beside this Python, where pip puts those of a venv."""
    path = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    return shutil.which(name, path=path)


class CMakeBuild(build_ext):
    """Let CMake make the extension, which is a plain shared library and no Python module.

    The search library (src/search/) comes out of the same run, into the same folder.
    """

    def run(self) -> None:
        """Remember whether the library goes beside the sources; setuptools hides it in between."""
        self.into_sources = bool(self.inplace)
        super().run()

    def copy_extensions_to_source(self) -> None:
        """Do nothing: CMake has written it there."""

    def get_ext_filename(self, fullname: str) -> str:
        """Without the interpreter's tag: other languages load the library too."""
        return os.path.join(*fullname.split(".")) + ".so"

    def build_extension(self, ext: Extension) -> None:
        """Configure and build; CMake itself finds out what is up to date."""
        cmake = tool("cmake")
        if cmake is None:
            raise SystemExit("cmake is not there: pip install cmake ninja, and try again")
        # pip gives every build a fresh temporary folder. A wheel is built once, but an editable
        # install is repeated: its objects stay in the repository.
        generator, options = self._generator()
        if self.into_sources:
            target = ROOT / self.get_ext_filename(ext.name)
            objects = ROOT / "build" / f"native-{generator.split()[0].lower()}"
        else:
            target = Path(self.get_ext_fullpath(ext.name)).resolve()
            objects = Path(self.build_temp).resolve() / "native"
        configure = [
            cmake, "-S", str(ROOT), "-B", str(objects), "-G", generator, *options,
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DTVM_HETERO_OUTPUT_DIR={target.parent}",
        ]  # fmt: skip
        objects.mkdir(parents=True, exist_ok=True)
        if subprocess.run(configure).returncode != 0:
            # The cache may remember a compiler or an environment that is gone: start afresh, once.
            shutil.rmtree(objects)
            subprocess.run(configure, check=True)
        subprocess.run([cmake, "--build", str(objects)], check=True)

    def _generator(self) -> tuple[str, list[str]]:
        ninja = tool("ninja")
        if ninja is None:
            return "Unix Makefiles", []
        return "Ninja", [f"-DCMAKE_MAKE_PROGRAM={ninja}"]


setup(
    name="tvm_hetero",
    version=version(),
    description="Model partitioning over heterogeneous devices for Apache TVM",
    python_requires=">=3.11",
    # tvm_hetero/passes, cost_models, platforms and include are links to the folders beside it.
    packages=find_packages(include=["tvm_hetero", "tvm_hetero.*"]),
    package_data={
        "tvm_hetero": [
            "py.typed", "platforms/*.yaml", "zoo/data/*.json",
            "include/tvm_hetero/*.h",
        ]
    },
    ext_modules=[Extension("tvm_hetero._lib.libtvm_hetero_runtime", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["tvm-hetero = tvm_hetero.cli.main:main"]},
    zip_safe=False,
)
