# SPDX-License-Identifier: Apache-2.0
"""Line charts as SVG text: panels side by side, a logarithmic x axis, light and dark."""
import math
from collections import namedtuple
from html import escape

# points: [(x, y)]; color: an index of the style; band: [(x, least, most)]
Series = namedtuple("Series", "label points color band dashed", defaults=((), False))
Panel = namedtuple("Panel", "title xlabel ylabel series bytes_x log_y", defaults=(False, False))

WIDTH, HEIGHT, LEFT, RIGHT, ABOVE, BELOW = 360, 260, 52, 20, 34, 46
STYLE = """
  .bg { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif }
  .t { font-size: 14px; font-weight: 600 } .h { font-size: 13px; font-weight: 600 }
  .g { stroke: #d0d7de; stroke-width: 1 } .c0 { stroke: #0969da } .c1 { stroke: #bc4c00 }
  .f0 { fill: #0969da } .f1 { fill: #bc4c00 } .l { fill: none; stroke-width: 2 }
  .b { fill-opacity: .16; stroke: none } .d { stroke-dasharray: 5 4 }
  @media (prefers-color-scheme: dark) {
    .bg { fill: #0d1117 } text { fill: #e6edf3 } .g { stroke: #30363d }
    .c0 { stroke: #58a6ff } .c1 { stroke: #f0883e } .f0 { fill: #58a6ff } .f1 { fill: #f0883e }
  }
"""


def size_text(value):
    for shift, unit in ((20, " MiB"), (10, " KiB")):
        if value >= 1 << shift:
            return f"{value >> shift}{unit}"
    return str(value)


def nice_step(top):
    """A step of 1, 2 or 5 times a power of ten that gives 4 to 8 lines up to top."""
    step = 10 ** math.floor(math.log10(top / 4))
    return next(step * times for times in (1, 2, 5, 10) if top / (step * times) <= 6)


def ticks(low, high, log):
    """(lowest, highest, values that get a line) of the y axis."""
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return 10.0 ** first, 10.0 ** last, [10.0 ** n for n in range(first, last + 1)]
    step = nice_step(high)
    count = math.ceil(high / step)
    return 0.0, count * step, [step * n for n in range(count + 1)]


def legend(out, panel, x, y):
    for one in panel.series:
        if not one.label or not one.points:
            continue
        dash = " d" if one.dashed else ""
        out.append(f'<path class="l c{one.color}{dash}" d="M{x},{y - 4}h22"/>')
        out.append(f'<text x="{x + 28}" y="{y}">{escape(one.label)}</text>')
        y += 16


def one_panel(out, panel, left, top):
    x0, x1 = left + LEFT, left + WIDTH - RIGHT
    y0, y1 = top + HEIGHT - BELOW, top + ABOVE
    every = [point for one in panel.series for point in one.points]
    highest = max([y for _, y in every] +
                  [most for one in panel.series for _, _, most in one.band])
    low, high, lines = ticks(min(y for _, y in every), highest, panel.log_y)
    xs = sorted({x for x, _ in every})

    def at_x(value):
        share = math.log(value / xs[0]) / math.log(xs[-1] / xs[0])
        return round(x0 + 12 + share * (x1 - x0 - 24), 1)

    def at_y(value):
        share = math.log(value / low) / math.log(high / low) if panel.log_y else value / high
        return round(y0 - share * (y0 - y1), 1)

    out.append(f'<text class="h" x="{x0}" y="{top + 18}">{escape(panel.title)}</text>')
    for value in lines:
        out.append(f'<path class="g" d="M{x0},{at_y(value)}H{x1}"/>')
        out.append(f'<text x="{x0 - 6}" y="{at_y(value) + 4}" text-anchor="end">{value:g}</text>')
    out.append(f'<text x="{left + 4}" y="{top + 18}">{escape(panel.ylabel)}</text>')
    shown = xs if len(xs) <= 6 else xs[::2]
    for i, value in enumerate(shown):
        if i and at_x(value) - at_x(shown[i - 1]) < 40: # the two texts would overlap
            continue
        text = size_text(value) if panel.bytes_x else str(value)
        out.append(f'<text x="{at_x(value)}" y="{y0 + 17}" text-anchor="middle">{text}</text>')
    out.append(f'<text x="{(x0 + x1) // 2}" y="{y0 + 36}" text-anchor="middle">'
               f'{escape(panel.xlabel)}</text>')
    for one in panel.series:
        if one.band:
            path = [(x, most) for x, _, most in one.band]
            path += [(x, least) for x, least, _ in reversed(one.band)]
            points = " ".join(f"{at_x(x)},{at_y(y)}" for x, y in path)
            out.append(f'<polygon class="b f{one.color}" points="{points}"/>')
        points = " ".join(f"{at_x(x)},{at_y(y)}" for x, y in one.points)
        dash = " d" if one.dashed else ""
        if points:
            out.append(f'<polyline class="l c{one.color}{dash}" points="{points}"/>')
        if not one.dashed:
            out += [f'<circle class="f{one.color}" cx="{at_x(x)}" cy="{at_y(y)}" r="3"/>'
                    for x, y in one.points]
    legend(out, panel, x0 + 12, y1 + 14)


def draw(title, panels):
    """An SVG of the panels, two in a row."""
    rows = (len(panels) + 1) // 2
    width, height = 2 * WIDTH, rows * HEIGHT + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" role="img">',
           f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>",
           f'<rect class="bg" width="{width}" height="{height}"/>',
           f'<text class="t" x="10" y="22">{escape(title)}</text>']
    for index, panel in enumerate(panels):
        one_panel(out, panel, index % 2 * WIDTH, 34 + index // 2 * HEIGHT)
    return "\n".join(out + ["</svg>", ""])
