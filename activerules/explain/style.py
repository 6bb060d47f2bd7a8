"""The style sheet of a report: self-contained, light and dark, for wide and narrow windows.

The colours follow the system, or the theme of the page around the report: Jupyter, Visual Studio
Code, and documentation with `data-theme`.
"""

from __future__ import annotations

_ROOT = ".activerules-report" * 2  # twice, to take precedence over Jupyter's rules
_LIGHT = """--text: #1f2328; --muted: #59636e; --back: #ffffff; --soft: #f3f5f7; --edge: #d7dce1;
--mark: #b35900; --tape: 240, 140, 20; --work: 70, 130, 230; color-scheme: light;"""
_DARK = """--text: #e6e9ec; --muted: #9aa4ae; --back: #14171a; --soft: #1e2226; --edge: #353b41;
--mark: #ffb257; --tape: 255, 150, 30; --work: 90, 150, 255; color-scheme: dark;"""

STAGE_COLOURS = (
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#b279a2",
    "#e45756",
    "#72b7b2",
    "#9d755d",
    "#bab0ac",
)

STYLE = f"""
{_ROOT} {{ {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ {_ROOT} {{ {_DARK} }} }}
[data-theme=light] {_ROOT}, [data-jp-theme-light=true] {_ROOT}, .vscode-light {_ROOT} {{ {_LIGHT} }}
[data-theme=dark] {_ROOT}, [data-jp-theme-light=false] {_ROOT}, .vscode-dark {_ROOT} {{ {_DARK} }}
{_ROOT} {{ color: var(--text); background: var(--back); font: 14px/1.5 system-ui, sans-serif;
  padding: 16px; max-width: 1180px; margin: 0 auto; overflow-wrap: anywhere; }}
{_ROOT} * {{ box-sizing: border-box; }}
{_ROOT} code, {_ROOT} .source td {{ font-family: ui-monospace, Menlo, Consolas, monospace; }}
{_ROOT} .title {{ font-size: 16px; font-weight: 600; margin: 0; }}
{_ROOT} .title code {{ background: none; color: inherit; font-size: inherit; padding: 0; }}
{_ROOT} .muted {{ color: var(--muted); margin: 2px 0; font-size: 13px; }}
{_ROOT} .facts {{ display: flex; flex-wrap: wrap; gap: 8px; list-style: none; padding: 0;
  margin: 14px 0; }}
{_ROOT} .facts li {{ background: var(--soft); border: 1px solid var(--edge); border-radius: 8px;
  padding: 4px 12px; margin: 0; }}
{_ROOT} .section {{ font-weight: 600; margin: 22px 0 6px; }}
{_ROOT} .section span {{ font-weight: 400; color: var(--muted); }}
{_ROOT} .wide {{ overflow-x: auto; border: 1px solid var(--edge); border-radius: 8px; }}
{_ROOT} table {{ border-collapse: collapse; width: 100%; margin: 0; font-size: 13px; border: 0;
  table-layout: auto; }}
{_ROOT} tr, {_ROOT} tbody tr:nth-child(odd), {_ROOT} tbody tr:hover {{ background: none; }}
{_ROOT} td, {_ROOT} th {{ text-align: left; vertical-align: top; padding: 4px 10px; border: 0;
  color: var(--text); background: none; max-width: none; white-space: normal; }}
{_ROOT} th {{ color: var(--muted); font-weight: 500; background: var(--soft); }}
{_ROOT} .rows tr + tr td {{ border-top: 1px solid var(--edge); }}
{_ROOT} .rows td:first-child {{ width: 1%; white-space: nowrap; color: var(--muted); }}
{_ROOT} .source td {{ white-space: pre; padding: 0 8px; font-size: 12.5px; line-height: 1.65; }}
{_ROOT} .source th {{ font-size: 12px; padding: 4px 8px; white-space: nowrap; }}
{_ROOT} .source .number {{ text-align: right; color: var(--muted); }}
{_ROOT} .source .tape, {_ROOT} .source .work {{ color: var(--text); }}
{_ROOT} .source .tape {{ background: rgba(var(--tape), var(--heat, 0)); }}
{_ROOT} .source .work {{ background: rgba(var(--work), var(--heat, 0)); }}
{_ROOT} .source .code {{ width: 100%; border-left: 3px solid transparent; }}
{_ROOT} .source .active .code {{ border-left-color: var(--mark); }}
{_ROOT} .source .idle .code {{ color: var(--muted); }}
{_ROOT} .bar {{ display: flex; height: 18px; border-radius: 6px; overflow: hidden; }}
{_ROOT} .legend {{ display: flex; flex-wrap: wrap; gap: 4px 16px; list-style: none; padding: 0;
  margin: 6px 0; font-size: 13px; }}
{_ROOT} .legend li {{ margin: 0; }}
{_ROOT} .legend i {{ display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  margin-right: 6px; }}
@media (max-width: 640px) {{
  {_ROOT} {{ padding: 12px; }}
  {_ROOT} .source td {{ padding: 0 5px; }}
  {_ROOT} .source tr > :nth-child(2) {{ display: none; }}
  {_ROOT} .source th {{ padding: 4px 5px; }}
  {_ROOT} .rows td {{ display: block; padding: 0 10px; border: 0 !important; }}
  {_ROOT} .rows tr {{ display: block; padding: 6px 0; }}
  {_ROOT} .rows tr + tr {{ border-top: 1px solid var(--edge); }}
}}
"""
