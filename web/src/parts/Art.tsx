import { useId, useMemo } from "react";
import { ART_HEIGHT, ART_WIDTH, artOf } from "./landscape";

/** Placeholder for an image that does not exist. */
export function Art({ name, className }: { name: string; className?: string }) {
  const art = useMemo(() => artOf(name), [name]);
  const sky = useId();
  return (
    <svg
      viewBox={`0 0 ${ART_WIDTH} ${ART_HEIGHT}`}
      preserveAspectRatio="xMidYMid slice"
      className={className}
      aria-hidden="true"
    >
      <defs>
        <linearGradient id={sky} x1="0" y1="0" x2="0" y2="1">
          <stop offset="0" stopColor={art.sky[0]} />
          <stop offset="0.75" stopColor={art.sky[1]} />
        </linearGradient>
      </defs>
      <rect width={ART_WIDTH} height={ART_HEIGHT} fill={`url(#${sky})`} />
      <circle cx={art.sun.x} cy={art.sun.y} r={art.sun.radius} fill={art.sun.color} />
      {art.ridges.map((ridge) => (
        <path key={ridge.path} d={ridge.path} fill={ridge.color} />
      ))}
    </svg>
  );
}
