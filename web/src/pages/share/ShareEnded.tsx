import { Unlink } from "lucide-react";
import { Empty } from "@/design/Empty";
import { useTitle } from "@/parts/useTitle";
import { shareTexts } from "@/texts/share";
import { ShareFrame } from "./ShareFrame";

export function ShareEnded() {
  useTitle(shareTexts.endedTitle);
  return (
    <ShareFrame>
      <Empty icon={<Unlink size={20} />} title={shareTexts.endedTitle} text={shareTexts.endedText} isPage />
    </ShareFrame>
  );
}
