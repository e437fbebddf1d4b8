"""A part of a suite, and types that several parts share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Section(BaseModel):
    """A frozen part of a suite that accepts only the declared keys, with the declared types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
