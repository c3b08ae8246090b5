import { Dialog } from "@/design/Dialog";
import { frameTexts, keyTexts } from "@/texts/frame";

export default function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title={frameTexts.keys}>
      <dl className="grid grid-cols-[auto_1fr] items-center gap-x-6 gap-y-2.5">
        {keyTexts.map(([keys, text]) => (
          <div key={keys} className="contents">
            <dt className="flex gap-1">
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
