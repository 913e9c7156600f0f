"""Build hook: the machine code of a folder that ``MTPP_MACHINE_CODE`` names goes into the wheel, see `make wheel`."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCode(BuildHookInterface):
    """Hook that puts the folder where `instances.compiled` looks first."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name what goes into the wheel besides its packages."""
        folder = os.environ.get("MTPP_MACHINE_CODE")
        if folder and self.target_name == "wheel" and version == "standard":
            build_data["force_include"][folder] = f"instances/__pycache__/{Path(folder).name}"
