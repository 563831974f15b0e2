/** Points of one server, joined by a line. */
export interface Curve {
  readonly name: string;
  readonly points: readonly CurvePoint[];
}

export interface CurvePoint {
  readonly x: number;
  readonly y: number;
  /** Shown beside the point. */
  readonly label: string;
}

/** Both axes are logarithmic: servers differ by tens. */
export interface Plot {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly curves: readonly Curve[];
}

const width = 720;
const height = 440;
const margin = { left: 64, right: 150, top: 40, bottom: 52 };
/** Told apart also by those who do not see red or green well (Okabe and Ito's colours). */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#555555'];

/** An SVG picture. Curves must have positive numbers and at least one point in all. */
export function drawPlot({ title, xLabel, yLabel, curves }: Plot): string {
  const points = curves.flatMap((curve) => curve.points);
  const xs = createAxis(
    points.map(({ x }) => x),
    margin.left,
    width - margin.right,
  );
  const ys = createAxis(
    points.map(({ y }) => y),
    height - margin.bottom,
    margin.top,
  );
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    `<title>${escapeMarkup(title)}</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    text(margin.left, 22, title, 'font-size="15" font-weight="bold"'),
    ...xs.ticks.flatMap((value) => drawXTick(xs.place(value), value)),
    ...ys.ticks.flatMap((value) => drawYTick(ys.place(value), value)),
    text((margin.left + width - margin.right) / 2, height - 12, xLabel, 'text-anchor="middle"'),
    text(
      0,
      0,
      yLabel,
      `text-anchor="middle" transform="translate(16 ${(height - margin.bottom + margin.top) / 2}) rotate(-90)"`,
    ),
    ...curves.flatMap((curve, index) => drawCurve(curve, index, xs, ys)),
    '</svg>',
  ];
  return `${parts.join('\n')}\n`;
}

interface Axis {
  readonly ticks: readonly number[];
  place(value: number): number;
}

/** From the tick below the smallest value to the tick above the largest one. */
function createAxis(values: readonly number[], from: number, to: number): Axis {
  const lowest = Math.min(...values);
  const highest = Math.max(...values);
  const all = decadeTicks(Math.floor(Math.log10(lowest)) - 1, Math.ceil(Math.log10(highest)) + 1);
  const first = all.findLastIndex((tick) => tick < lowest);
  const last = all.findIndex((tick) => tick > highest);
  const ticks = all.slice(Math.max(first, 0), last + 1);
  const low = Math.log10(ticks[0] ?? lowest);
  const high = Math.log10(ticks.at(-1) ?? highest);
  return {
    ticks,
    place: (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from),
  };
}

/** 1, 2, 5, 10, 20, ... */
function decadeTicks(fromPower: number, toPower: number): readonly number[] {
  return Array.from({ length: toPower - fromPower + 1 }, (_, index) => fromPower + index).flatMap(
    (power) => [1, 2, 5].map((factor) => Number((factor * 10 ** power).toPrecision(3))),
  );
}

function drawXTick(x: number, value: number): readonly string[] {
  const bottom = height - margin.bottom;
  return [
    line(x, margin.top, x, bottom),
    text(x, bottom + 18, formatTick(value), 'text-anchor="middle" fill="#444"'),
  ];
}

function drawYTick(y: number, value: number): readonly string[] {
  return [
    line(margin.left, y, width - margin.right, y),
    text(margin.left - 8, y + 4, formatTick(value), 'text-anchor="end" fill="#444"'),
  ];
}

function drawCurve(curve: Curve, index: number, xs: Axis, ys: Axis): readonly string[] {
  const colour = colours[index % colours.length];
  const places = curve.points.map(({ x, y, label }) => ({ x: xs.place(x), y: ys.place(y), label }));
  const path = places.map(({ x, y }) => `${round(x)},${round(y)}`).join(' ');
  const legendY = margin.top + 14 + index * 20;
  const legendX = width - margin.right + 14;
  return [
    `<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="2"/>`,
    ...places.flatMap(({ x, y, label }) => [
      `<circle cx="${round(x)}" cy="${round(y)}" r="3.5" fill="${colour}"/>`,
      text(x + 6, y - 6, label, `font-size="10" fill="${colour}"`),
    ]),
    `<rect x="${legendX}" y="${legendY - 9}" width="12" height="12" fill="${colour}"/>`,
    text(legendX + 18, legendY + 1, curve.name, ''),
  ];
}

function line(x1: number, y1: number, x2: number, y2: number): string {
  return `<line x1="${round(x1)}" y1="${round(y1)}" x2="${round(x2)}" y2="${round(y2)}" stroke="#ddd"/>`;
}

function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escapeMarkup(content)}</text>`;
}

function escapeMarkup(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

function formatTick(value: number): string {
  return value >= 1000 ? `${value / 1000}k` : String(value);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
