// Decides from the values of a chart how it is drawn.
type Values = ArrayLike<number | null | undefined>;

const WHOLE_STEPS = steps([1, 2, 5], 0);
const STEPS = steps([1, 2, 2.5, 5], -4);

/**
 * Allowed distances between marks of the axis. If all values are whole they are counts: one and a half jobs cannot
 * wait.
 */
export function stepsFor(lines: readonly Values[]): number[] {
  return lines.every((values) =>
    Array.from(values).every((value) => value === null || value === undefined || Number.isInteger(value)),
  )
    ? WHOLE_STEPS
    : STEPS;
}

/** Indexes of values between two gaps. They are not part of a line. */
export function alone(values: Values): number[] {
  const isThere = (index: number) => values[index] !== null && values[index] !== undefined;
  return Array.from({ length: values.length }, (_, index) => index).filter(
    (index) => isThere(index) && !isThere(index - 1) && !isThere(index + 1),
  );
}

function steps(firsts: readonly number[], least: number): number[] {
  return Array.from({ length: 13 - least }, (_, power) =>
    firsts.map((first) => Number(`${first}e${power + least}`)),
  ).flat();
}
