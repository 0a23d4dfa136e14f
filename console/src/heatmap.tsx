// A heat map of hosts on a canvas: a square each, in the order given.
import { useEffect, useRef } from "preact/hooks";

export interface Square {
  // In use, 0 to 1 and above; undefined where there is nothing of it.
  share?: number;
  state: "" | "down" | "out of service";
}

interface Props {
  squares: Square[];
  label: string;
  // The square that is pointed at.
  over?: number;
  onOver: (i: number | undefined) => void;
  onOpen: (i: number) => void;
}

// sizeOf gives the edge of a square with its gap: as large as fits into about 420 pixels of
// height, at least 5 and at most 22.
function sizeOf(n: number, width: number): number {
  for (let size = 22; size > 5; size--) if (Math.ceil(n / Math.max(1, Math.floor(width / size))) * size <= 420) return size;
  return 5;
}

export function HeatMap({ squares, label, over, onOver, onOpen }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const grid = useRef({ size: 10, columns: 1 });
  useEffect(() => {
    const el = canvas.current!;
    const draw = () => {
      const width = el.parentElement!.clientWidth;
      const size = sizeOf(squares.length, width);
      const columns = Math.max(1, Math.floor(width / size));
      const height = Math.max(size, Math.ceil(squares.length / columns) * size);
      grid.current = { size, columns };
      const scale = devicePixelRatio || 1;
      if (el.width !== width * scale || el.height !== height * scale) {
        el.width = width * scale;
        el.height = height * scale;
        el.style.height = `${height}px`;
      }
      const c = el.getContext("2d")!;
      c.setTransform(scale, 0, 0, scale, 0, 0);
      c.clearRect(0, 0, width, height);
      const style = getComputedStyle(el);
      const color = (name: string) => style.getPropertyValue(name).trim();
      const ramp = Array.from({ length: 10 }, (_, i) => color(`--heat-${i}`));
      const [high, down, out, none] = ["--heat-high", "--heat-down", "--heat-out", "--track"].map(color);
      const gap = size > 8 ? 2 : 1;
      squares.forEach((s, i) => {
        const x = (i % columns) * size;
        const y = Math.floor(i / columns) * size;
        const edge = size - gap;
        if (s.state) {
          // Shapes differ too, not only colours.
          c.strokeStyle = s.state === "down" ? down : out;
          c.lineWidth = size > 8 ? 1.5 : 1;
          c.strokeRect(x + 0.75, y + 0.75, edge - 1.5, edge - 1.5);
          if (s.state === "down") {
            c.beginPath();
            c.moveTo(x + 1, y + 1);
            c.lineTo(x + edge - 1, y + edge - 1);
            c.stroke();
          }
          return;
        }
        c.fillStyle = s.share === undefined ? none : s.share > 0.9 ? high : ramp[Math.min(9, Math.floor(s.share * 11))];
        c.fillRect(x, y, edge, edge);
      });
      if (over !== undefined && over < squares.length) {
        c.strokeStyle = color("--text");
        c.lineWidth = 2;
        c.strokeRect((over % columns) * size, Math.floor(over / columns) * size, size - gap, size - gap);
      }
    };
    draw();
    const resized = new ResizeObserver(draw);
    resized.observe(el.parentElement!);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    addEventListener("themechange", draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", draw);
      removeEventListener("themechange", draw);
    };
  }, [squares, over]);
  const at = (e: MouseEvent) => {
    const { size, columns } = grid.current;
    const column = Math.floor(e.offsetX / size);
    const i = Math.floor(e.offsetY / size) * columns + column;
    return column < columns && i < squares.length ? i : undefined;
  };
  const key = (e: KeyboardEvent) => {
    const { columns } = grid.current;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -Infinity, End: Infinity }[e.key];
    if (step !== undefined) {
      e.preventDefault();
      onOver(Math.min(squares.length - 1, Math.max(0, over === undefined ? 0 : over + step)));
    } else if (e.key === "Enter" && over !== undefined) onOpen(over);
  };
  return (
    <div class="heat">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={label}
        onMouseMove={(e) => { const i = at(e); if (i !== over) onOver(i); }}
        onMouseLeave={() => onOver(undefined)}
        onClick={(e) => { const i = at(e); if (i !== undefined) onOpen(i); }}
        onKeyDown={key}
      />
    </div>
  );
}
