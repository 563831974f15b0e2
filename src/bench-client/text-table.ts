/** Rows as aligned columns, numbers to the right; the first row is the head. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const isNumeric = widths.map((_, column) =>
    rows.slice(1).every((row) => /^[-+]?[\d.]* ?%?$/.test(row[column] ?? '')),
  );
  return rows.map((row) => `${formatRow(row, widths, isNumeric)}\n`).join('');
}

function formatRow(
  row: readonly string[],
  widths: readonly number[],
  isNumeric: readonly boolean[],
): string {
  return widths
    .map((width, column) => {
      const text = row[column] ?? '';
      return isNumeric[column] ? text.padStart(width) : text.padEnd(width);
    })
    .join('  ')
    .trimEnd();
}
