/** Return a number with at most `digits` significant digits, as C's and Python's `%g` write it. */
export function shortNumber(value: number, digits = 6): string {
  if (value === 0 || !Number.isFinite(value)) {
    return String(value);
  }
  const [mantissa, power] = value.toExponential(digits - 1).split("e") as [string, string];
  const exponent = Number(power);
  if (exponent < -4 || exponent >= digits) {
    const sign = exponent < 0 ? "-" : "+";
    return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  return withoutZeros(value.toFixed(digits - 1 - exponent));
}

function withoutZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
