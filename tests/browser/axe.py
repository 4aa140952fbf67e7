"""axe-core in a page of ours: what it finds of serious or critical impact."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Page

# Without WCAG 2.2's own tag, rules of the target size would not run.
WCAG = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
# All that another theme can spoil.
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
RUN = """(only) => axe.run(document, {runOnly: only, resultTypes: ["violations"]}).then((found) =>
  found.violations.filter((v) => ["serious", "critical"].includes(v.impact)).map((v) =>
    v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.html.slice(0, 160))
      .join(" | ")))"""


def script() -> str:
    """axe.min.js as it comes with axe_playwright_python."""
    spec = find_spec("axe_playwright_python")
    assert spec is not None, "axe-playwright-python is not installed"
    assert spec.origin is not None
    (found,) = Path(spec.origin).parent.rglob("axe.min.js")
    return found.read_text("utf-8")


def serious(page: Page, axe: str, rules: dict[str, object] = WCAG) -> list[str]:
    """In words: rule and the first elements. The page's context was made with bypass_csp."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe)
    found: list[str] = page.evaluate(RUN, rules)
    return found
