// The colours of the theme for what is drawn on a canvas.
import type { Family } from "./states";

export interface Palette extends Record<Family, string> {
  bg: string;
  panel: string;
  raised: string;
  line: string;
  strong: string;
  ink: string;
  ink2: string;
  ink3: string;
  accent: string;
  soft: string;
  sans: string;
}

let known: { theme: string; colors: Palette } | null = null;

/** The colours of the theme that is shown; read from the page only when the theme changes. */
export function palette(): Palette {
  const theme = document.documentElement.dataset.theme ?? "";
  if (known?.theme !== theme) known = { theme, colors: readPalette() };
  return known.colors;
}

function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    success: token("success"),
    running: token("running"),
    failed: token("failed"),
    attention: token("attention"),
    waiting: token("waiting"),
    cancelled: token("cancelled"),
    bg: token("bg"),
    panel: token("panel"),
    raised: token("raised"),
    line: token("line"),
    strong: token("line-strong"),
    ink: token("ink"),
    ink2: token("ink-2"),
    ink3: token("ink-3"),
    accent: token("accent"),
    soft: token("accent-soft"),
    sans: token("sans"),
  };
}

/** Makes a canvas as sharp as the screen; its context in CSS pixels. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** The mark of a state, the same shapes as the icon. */
export function drawMark(c: CanvasRenderingContext2D, shape: string, color: string, bg: string, x: number, y: number, size: number): void {
  const s = size / 16;
  c.save();
  c.translate(x, y);
  c.scale(s, s);
  c.strokeStyle = c.fillStyle = color;
  c.lineWidth = 1.5;
  c.lineCap = c.lineJoin = "round";
  const line = (...points: number[]): void => {
    c.beginPath();
    for (let i = 0; i < points.length; i += 2) c.lineTo(points[i]!, points[i + 1]!);
    c.stroke();
  };
  const ring = (radius: number): void => {
    c.beginPath();
    c.arc(8, 8, radius, 0, Math.PI * 2);
    c.stroke();
  };
  switch (shape) {
    case "check":
      ring(6.2);
      line(5.2, 8.3, 7.2, 10.3, 10.9, 6.1);
      break;
    case "play":
      c.globalAlpha = 0.2;
      c.beginPath();
      c.arc(8, 8, 7, 0, Math.PI * 2);
      c.fill();
      c.globalAlpha = 1;
      c.beginPath();
      c.moveTo(6.2, 4.6);
      c.lineTo(6.2, 11.4);
      c.lineTo(11.6, 8);
      c.fill();
      break;
    case "cross":
      c.beginPath();
      c.roundRect(1, 1, 14, 14, 3);
      c.fill();
      c.strokeStyle = bg;
      line(5.2, 5.2, 10.8, 10.8);
      line(10.8, 5.2, 5.2, 10.8);
      break;
    case "hollow-cross":
      c.beginPath();
      c.roundRect(1.7, 1.7, 12.6, 12.6, 3);
      c.stroke();
      line(5.4, 5.4, 10.6, 10.6);
      line(10.6, 5.4, 5.4, 10.6);
      break;
    case "bang":
      c.beginPath();
      c.moveTo(8, 1.2);
      c.lineTo(15, 14.2);
      c.lineTo(1, 14.2);
      c.closePath();
      c.fill();
      c.strokeStyle = c.fillStyle = bg;
      line(8, 6, 8, 10);
      c.beginPath();
      c.arc(8, 12.1, 0.95, 0, Math.PI * 2);
      c.fill();
      break;
    case "slash":
      ring(6.2);
      line(3.9, 12.1, 12.1, 3.9);
      break;
    default:
      ring(5.4);
  }
  c.restore();
}

/** A text that fits, with an ellipsis where it was cut. */
export function fitted(c: CanvasRenderingContext2D, text: string, room: number): string {
  if (c.measureText(text).width <= room) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (c.measureText(text.slice(0, middle) + "…").width <= room) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : text.slice(0, low) + "…";
}
