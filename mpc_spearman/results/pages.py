"""The templates of the pages this package writes: escaped, strict, one file each with nothing to fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


def template(name: str, **filters: Callable[..., Any]) -> jinja2.Template:
    """Load a template of this package with filters of its own."""
    import jinja2  # here, as only a page needs it

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mpc_spearman"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)
