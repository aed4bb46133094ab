"""Build and describe the package: Python as it stands, and two C++ libraries made by CMake.

``pip install -e . --no-build-isolation`` puts the libraries into ``tvm_hetero/_lib`` and is
quick the second time (objects stay in ``build/``). ``pip wheel .`` puts them into the wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent

HOME = "https://github.com/tvm-hetero/tvm_hetero"

TVM_FFI = "apache-tvm-ffi>=0.1.14.post0,<0.1.15"  # 0.1.15 crashes TVM 0.27 in save_json

REQUIRES = [
    "apache-tvm==0.27.*",
    TVM_FFI,
    "networkx",
    "numpy",
    "onnx>=1.21",
    "ortools",
    "packaging",
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
    # Models over HTTP (tvm_hetero.serve). Tornado's floor is its last release of security fixes,
    # its ceiling the next one, which may change inner parts that we use (serve/http/fast_lane.py).
    "serve": [
        "jinja2",
        "msgspec",
        "orjson",
        "prometheus_client",
        "tokenizers",
        "tornado>=6.6.1,<6.7",
        "uvloop",  # it serves without, too
    ],
    "otel": ["opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"],  # traces of requests
    # Clients of others that the server is tested with; tritonclient itself comes without what it
    # asks for (Makefile): it would take ml_dtypes back to 0.5.
    "test": [
        "axe-playwright-python",  # has axe-core: whether all can use the server's page
        "aiohttp",
        "cloudpickle",
        "geventhttpclient",
        "hypothesis",
        "mypy",
        "onnxruntime",
        "openai>=3",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-sdk",
        "playwright",
        "open-inference-openapi",
        "psutil",
        "pytest",
        "pytest-xdist",
        "python-rapidjson",
        "ray>=2.50",
        "ruff",
        "schemathesis",
        "torch==2.13.0",
        "transformers>=5",
        "types-PyYAML",
    ],
    "build": ["cmake>=3.18", "ninja", "setuptools>=77", "setuptools-scm>=8", "wheel", TVM_FFI],
}

EXTRAS["test"] += EXTRAS["serve"]

# The Pythons here are those of .github/workflows/ci.yml (tests/test_packaging.py).
CLASSIFIERS = [
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: C++",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Software Development :: Compilers",
    "Typing :: Typed",
]

UNKNOWN = "0+unknown"  # as in tvm_hetero/__init__.py

# Files of C++ that are compiled as one: most of what each takes are tvm-ffi's headers. A change
# compiles its neighbours, too.
TOGETHER = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10"]

# An sdist installs without one all the same: what schedules, judges, plans and draws needs none. In
# the repository it is an error, since who works there wants the executor (`make demo`).
NO_COMPILER = (
    "tvm_hetero: there is no C++ compiler, so its two libraries are left out: schedules are "
    "found by slower searches, and no model can be compiled or run (`tvm-hetero doctor` says so)"
)


def version() -> str:
    """Take the version from git's tags; without git, from where an sdist or a zip file keeps it.

    A tree that knows nothing of itself (a copy without .git, or where git is not installed) has the
    version that the package has before it is installed.
    """
    try:
        from setuptools_scm import get_version
    except ImportError:
        raise SystemExit(
            "setuptools-scm is not there: pip install setuptools-scm, and try again"
        ) from None
    try:
        return get_version(root=str(ROOT))
    except LookupError:
        return UNKNOWN


def tool(name: str) -> str | None:
    """Find a program on the PATH or beside this Python, where pip puts those of a venv."""
    path = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    return shutil.which(name, path=path)


def has_compiler() -> bool:
    """Whether there is one for C++, of those that CMake looks for."""
    return bool(os.environ.get("CXX")) or any(map(tool, ("c++", "g++", "clang++")))


class BuildPy(build_py):
    """Write the version into the package, where `tvm_hetero.__version__` reads it without metadata.

    Only here: what merely asks for names (``setup.py egg_info``) leaves the sources alone.
    """

    def run(self) -> None:
        """Write into the sources of an editable install, else into what becomes the wheel."""
        super().run()
        folder = ROOT if self.editable_mode else Path(self.build_lib)
        path = folder / "tvm_hetero" / "_version.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it may be a hard link to a file of the sources
        path.write_text(f"version = {self.distribution.get_version()!r}\n", encoding="utf-8")


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
        if not self.into_sources and not has_compiler():
            print(NO_COMPILER, file=sys.stderr)
            return
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
            cmake, "-S", str(ROOT), "-B", str(objects), "-G", generator, *options, *TOGETHER,
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DTVM_HETERO_OUTPUT_DIR={target.parent}",
            f"-DTVM_HETERO_VERSION={self.distribution.get_version()}",
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


class PlainWheel(bdist_wheel):
    """One wheel for all Pythons: the libraries know nothing of the interpreter that loads them."""

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3, this platform; ``make package`` makes a manylinux of it."""
        return "py3", "none", super().get_tag()[2]


setup(
    name="tvm_hetero",
    version=version(),
    description="Model partitioning over heterogeneous devices for Apache TVM",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The tvm_hetero authors",
    url=HOME,
    project_urls={
        "Documentation": f"{HOME}/tree/main/docs",
        "Changelog": f"{HOME}/blob/main/CHANGELOG.md",
        "Issues": f"{HOME}/issues",
    },
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=CLASSIFIERS,
    keywords=[
        "scheduling",
        "model partitioning",
        "heterogeneous computing",
        "TVM",
        "inference",
        "MILP",
    ],
    python_requires=">=3.11",
    # tvm_hetero/passes, cost_models, platforms and include are links to the folders beside it.
    packages=find_packages(include=["tvm_hetero", "tvm_hetero.*"]),
    package_data={
        "tvm_hetero": [
            "py.typed",
            "platforms/*.yaml",
            "report/explorer/static/*",
            "serve/http/openapi/*.json",
            "serve/page/static/*",
            "zoo/data/*.json",
            "zoo/data/*.layers",
            "include/tvm_hetero/*.h",
        ]
    },
    ext_modules=[Extension("tvm_hetero._lib.libtvm_hetero_runtime", sources=[])],
    cmdclass={"bdist_wheel": PlainWheel, "build_ext": CMakeBuild, "build_py": BuildPy},
    install_requires=REQUIRES,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["tvm-hetero = tvm_hetero.__main__:main"]},
    zip_safe=False,
)
