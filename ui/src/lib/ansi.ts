// Terminal colours in log lines, and nothing else of what a terminal obeys.
export interface Span {
  text: string;
  /** Classes: "fg1" to "fg15", "bg0" to "bg7", "bold", "dim", "underline", "italic". */
  classes: string;
}

const ESCAPE = /\u001b\[([0-9;:]*)([A-Za-z])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-_]?|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;
// Characters that turn the order of what follows, so that a line reads as something else.
const BIDI = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

interface Pen {
  fg: number | null;
  bg: number | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const plain = (): Pen => ({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false });

function classes(pen: Pen): string {
  const found: string[] = [];
  if (pen.fg !== null) found.push(`fg${pen.fg}`);
  if (pen.bg !== null) found.push(`bg${pen.bg}`);
  for (const name of ["bold", "dim", "italic", "underline"] as const) if (pen[name]) found.push(name);
  return found.join(" ");
}

function obey(pen: Pen, codes: number[]): void {
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i]!;
    if (code === 0) Object.assign(pen, plain());
    else if (code === 1) pen.bold = true;
    else if (code === 2) pen.dim = true;
    else if (code === 3) pen.italic = true;
    else if (code === 4) pen.underline = true;
    else if (code === 22) pen.bold = pen.dim = false;
    else if (code === 23) pen.italic = false;
    else if (code === 24) pen.underline = false;
    else if (code >= 30 && code <= 37) pen.fg = code - 30;
    else if (code === 39) pen.fg = null;
    else if (code >= 40 && code <= 47) pen.bg = code - 40;
    else if (code === 49) pen.bg = null;
    else if (code >= 90 && code <= 97) pen.fg = code - 90 + 8;
    else if (code >= 100 && code <= 107) pen.bg = code - 100;
    else if (code === 38 || code === 48) {
      // 256 colours: the first sixteen are ours, the others are left as they are.
      const isIndexed = codes[i + 1] === 5;
      const index = codes[i + 2] ?? 0;
      if (isIndexed && index < 16) {
        if (code === 38) pen.fg = index;
        else pen.bg = index % 8;
      }
      i += isIndexed ? 2 : 4;
    }
  }
}

/** A line in coloured pieces. Control characters vanish, and marks that turn the direction of text are shown as such. */
export function spans(line: string): Span[] {
  const found: Span[] = [];
  const pen = plain();
  let from = 0;
  const push = (text: string): void => {
    if (text === "") return;
    const shown = text.replace(BIDI, (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase()}⟩`);
    found.push({ text: shown, classes: classes(pen) });
  };
  if (!/[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(line)) {
    return line === "" ? [] : [{ text: line, classes: "" }];
  }
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") obey(pen, (match[1] || "0").split(/[;:]/).map((code) => Number(code) || 0));
  }
  push(line.slice(from));
  return found;
}

/** The line as plain text, for searching and copying. */
export const stripped = (line: string): string => spans(line).map((span) => span.text).join("");
