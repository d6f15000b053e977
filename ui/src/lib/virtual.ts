// Which rows of a long list are drawn.
export interface Window {
  first: number;
  last: number;
  before: number;
  after: number;
}

/** Rows of one height: those in view and `extra` around them. */
export function visible(count: number, height: number, top: number, view: number, extra = 12): Window {
  if (count === 0) return { first: 0, last: 0, before: 0, after: 0 };
  const first = Math.max(0, Math.min(count - 1, Math.floor(top / height) - extra));
  const last = Math.min(count, Math.max(first + 1, Math.ceil((top + view) / height) + extra));
  return { first, last, before: first * height, after: (count - last) * height };
}
