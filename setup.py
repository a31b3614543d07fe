"""Packages the library together with its presets and recipes.

The folders `zoo/` and `training/` at the root hold content; a wheel carries them as `keras_attention/_data/`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CONTENT = ("zoo", "training")
EXTRAS = {
    "litert": ["ai-edge-litert>=2.0"],
    "onnx": ["onnxruntime>=1.20"],
    "eval": ["sacrebleu>=2.4", "sacremoses>=0.1", "rouge-score>=0.1.2", "scikit-learn>=1.4", "seqeval>=1.2"],
    "backends": ["jax>=0.5", "torch>=2.6"],
    "hub": ["keras-hub>=0.20"],
    "test": [
        "pytest>=8",
        "pytest-cov>=5",
        "pytest-xdist>=3.6",
        "hypothesis>=6.100",
        "ruff>=0.6",
        "jax>=0.5",
        "build>=1.2",
        "setuptools>=77",
        "wheel>=0.43",
    ],
}
EXTRAS["test"] += EXTRAS["litert"] + EXTRAS["onnx"] + EXTRAS["eval"] + EXTRAS["hub"]
EXTRAS["all"] = sorted({requirement for extra in EXTRAS.values() for requirement in extra})


class BuildWithContent(build_py):
    """Copies the content folders beside the code of the package that is being built."""

    def run(self):
        super().run()
        if self.editable_mode:
            return  # the resolver finds the checkout itself
        for folder in CONTENT:
            target = Path(self.build_lib, "keras_attention", "_data", folder)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / folder, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"))


def version() -> str:
    return re.search(r'__version__ = "(.+)"', (ROOT / "keras_attention" / "__init__.py").read_text("utf-8")).group(1)


setup(
    name="keras-attention-zoo",
    version=version(),
    description="Attention mechanisms as Keras 3 layers, with small pretrained models that show what they look at",
    long_description=(ROOT / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=find_packages(include=["keras_attention", "keras_attention.*"]),
    install_requires=[
        "tensorflow>=2.21",
        "keras>=3.15",
        "numpy>=1.26",
        'tensorflow-text>=2.21; (sys_platform == "linux" and platform_machine == "x86_64") or sys_platform == "darwin"',
        "tensorboard>=2.19",
        "tf2onnx>=1.17",
        "sentencepiece>=0.2.3",
        "safetensors>=0.4",
        "PyYAML>=6",
        "typer>=0.12",
        "rich>=13",
        "matplotlib>=3.8",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["keras-attention = keras_attention.cli:main"]},
    cmdclass={"build_py": BuildWithContent},
    classifiers=[
        "Programming Language :: Python :: 3.11",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
