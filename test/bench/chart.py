"""Line charts as SVG, one above the other over one horizontal axis; readable on light and on dark pages."""
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, HEIGHT, GAP, BOTTOM = 720, 70, 150, 52, 190, 52, 46
STYLE = '''<style>
  text { font: 12px system-ui, sans-serif; fill: #333; } .title { font-size: 15px; font-weight: 600; } .note { fill: #666; }
  .axis { stroke: #888; } .grid { stroke: #ddd; } .bound { stroke: #999; stroke-dasharray: 4 4; }
  .s0 { stroke: #2065c0; } .s1 { stroke: #c2571a; } .s2 { stroke: #2a8a4a; } .line { fill: none; stroke-width: 2; }
  .d0 { fill: #2065c0; } .d1 { fill: #c2571a; } .d2 { fill: #2a8a4a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd; } .note { fill: #aaa; } .axis { stroke: #888; } .grid { stroke: #444; } .bound { stroke: #888; }
    .s0 { stroke: #6aa9ff; } .s1 { stroke: #ff9d5c; } .s2 { stroke: #69d08c; } .d0 { fill: #6aa9ff; } .d1 { fill: #ff9d5c; } .d2 { fill: #69d08c; }
  }
</style>'''


def ticks(low, high, wanted=5):
    """Round numbers from at most low to at least high."""
    span = max(high - low, 1e-12)
    size = 10.0 ** len(str(int(span))) if span >= 1 else 1.0
    while size > span / wanted: size /= 10
    step = next(s * size for s in (1, 2, 5, 10, 20) if span / (s * size) <= wanted)
    first = int(low / step + 1e-9)
    last = int(high / step + 1 - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def number(x):
    return f'{x:.10g}'


class Panel:
    """series: (label, [(x, y)]); bound: (label, [(x, y)]) drawn dashed."""

    def __init__(self, label, series, bound=None, from_zero=False):
        self.label, self.series, self.bound, self.from_zero = label, series, bound, from_zero


def chart(title, note, x_label, panels):
    xs = [x for p in panels for _, points in p.series for x, _ in points]
    x_ticks = ticks(min(xs), max(xs), 8)
    x_at = lambda x: LEFT + (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (WIDTH - LEFT - RIGHT)
    height = TOP + len(panels) * (HEIGHT + GAP) - GAP + BOTTOM
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">', STYLE,
           f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>', f'<text class="note" x="{LEFT}" y="37">{escape(note)}</text>']
    for i, panel in enumerate(panels):
        top = TOP + i * (HEIGHT + GAP)
        out += panel_lines(panel, x_ticks, x_at, top)
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{height - 8}" text-anchor="middle">{escape(x_label)}</text>')
    return '\n'.join(out + ['</svg>', ''])


def panel_lines(panel, x_ticks, x_at, top):
    ys = [y for _, points in panel.series for _, y in points]
    y_ticks = ticks(0 if panel.from_zero else min(ys), max(ys))
    y_at = lambda y: top + HEIGHT - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * HEIGHT
    left, right, bottom = LEFT, WIDTH - RIGHT, top + HEIGHT
    out = []
    for y in y_ticks:
        out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y_at(y):.1f}" y2="{y_at(y):.1f}"/>')
        out.append(f'<text x="{left - 8}" y="{y_at(y) + 4:.1f}" text-anchor="end">{number(y)}</text>')
    for x in x_ticks:
        out.append(f'<line class="axis" x1="{x_at(x):.1f}" x2="{x_at(x):.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
        out.append(f'<text x="{x_at(x):.1f}" y="{bottom + 19}" text-anchor="middle">{number(x)}</text>')
    out.append(f'<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>')
    out.append(f'<text transform="translate(16 {top + HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(panel.label)}</text>')
    path = lambda points: 'M' + 'L'.join(f'{x_at(x):.1f} {y_at(y):.1f}' for x, y in points)
    labels = [(label, f'd{k}') for k, (label, _) in enumerate(panel.series)]
    if panel.bound:
        inside = [(x, y) for x, y in panel.bound[1] if y_ticks[0] <= y <= y_ticks[-1]]
        out.append(f'<path class="bound" fill="none" d="{path(inside)}"/>')
        labels.append((panel.bound[0] + ' (dashed)', 'note'))
    for k, (_, points) in enumerate(panel.series):
        out.append(f'<path class="line s{k}" d="{path(points)}"/>')
        out += [f'<circle class="d{k}" cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="2.5"/>' for x, y in points]
    out += [f'<text class="{kind}" x="{right + 14}" y="{top + 12 + 17 * i}">{escape(text)}</text>' for i, (text, kind) in enumerate(labels)]
    return out
