import { describe, expect, it } from 'vitest';
import { drawPlot } from '../../bench/plot.js';

const picture = drawPlot({
  title: 'a & b',
  xLabel: 'requests/s',
  yLabel: 'ms',
  curves: [
    {
      name: 'one <server>',
      points: [
        { x: 30, y: 1.5, label: '1' },
        { x: 3000, y: 15, label: '64' },
      ],
    },
    { name: 'other', points: [{ x: 300, y: 4, label: '1' }] },
  ],
});

/** Centres of the points. */
function places(): readonly { readonly x: number; readonly y: number }[] {
  return [...picture.matchAll(/<circle cx="([\d.]+)" cy="([\d.]+)"/g)].map(([, x, y]) => ({
    x: Number(x),
    y: Number(y),
  }));
}

describe('drawPlot', () => {
  it('puts equal factors at equal distances, more to the right and higher up', () => {
    const [low, high, middle] = places();
    expect(middle?.x).toBeCloseTo(((low?.x ?? 0) + (high?.x ?? 0)) / 2, 0);
    expect(high?.x).toBeGreaterThan(low?.x ?? 0);
    expect(high?.y).toBeLessThan(low?.y ?? 0);
  });

  it('begins and ends its axes at the round numbers around the points', () => {
    const numbers = [...picture.matchAll(/fill="#444">([^<]+)</g)].map(([, text]) => text);
    expect(numbers).toEqual([
      '20',
      '50',
      '100',
      '200',
      '500',
      '1k',
      '2k',
      '5k',
      '1',
      '2',
      '5',
      '10',
      '20',
    ]);
  });

  it('keeps every point inside its frame', () => {
    for (const { x, y } of places()) {
      expect(x).toBeGreaterThan(64);
      expect(x).toBeLessThan(570);
      expect(y).toBeGreaterThan(40);
      expect(y).toBeLessThan(388);
    }
  });

  it('escapes what is markup', () => {
    expect(picture).toContain('a &amp; b');
    expect(picture).toContain('one &lt;server>');
  });
});
