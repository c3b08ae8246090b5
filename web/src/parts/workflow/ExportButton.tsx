import { FileUp } from "lucide-react";
import { useRef } from "react";
import { Button } from "@/design";

/** Chooses the file of a ComfyUI export. */
export function ExportButton({
  onFile,
  busy,
  look = "plain",
  children,
}: {
  onFile: (file: File) => void;
  busy: boolean;
  look?: "go" | "plain";
  children: string;
}) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        accept=".json,application/json"
        aria-label={children}
        tabIndex={-1}
        className="sr-only"
        onChange={(event) => {
          const file = event.target.files?.[0];
          // The user may choose the same file again.
          event.target.value = "";
          if (file !== undefined) onFile(file);
        }}
      />
      <Button look={look} busy={busy} icon={<FileUp size={16} />} onClick={() => input.current?.click()}>
        {children}
      </Button>
    </>
  );
}
