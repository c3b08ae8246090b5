import { ArrowUp } from "lucide-react";

/** Announces new rows. They move nothing that the user reads. */
export function NewRowsButton({ count, label, onShow }: { count: number; label: string; onShow: () => void }) {
  return (
    <div role="status" className="pointer-events-none sticky top-14 z-10 flex h-0 justify-center">
      {count > 0 && (
        <button
          type="button"
          onClick={onShow}
          className="appear num pointer-events-auto flex h-9 touch:h-11 -translate-y-1/2 items-center gap-1.5 rounded-full! bg-accent px-4 text-s font-[550] text-accent-ink shadow-high hover:bg-accent-hover"
        >
          <ArrowUp size={14} aria-hidden />
          {label}
        </button>
      )}
    </div>
  );
}
