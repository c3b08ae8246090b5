import { Compass } from "lucide-react";
import { Empty } from "@/design/Empty";
import { LinkButton } from "@/parts/LinkButton";
import { useTitle } from "@/parts/useTitle";
import { frameTexts } from "@/texts/frame";

export function NotFound() {
  useTitle(frameTexts.notFound);
  return (
    <Empty
      icon={<Compass size={20} />}
      title={frameTexts.notFound}
      text={frameTexts.notFoundText}
      isPage
      action={<LinkButton to="/effects">{frameTexts.goToEffects}</LinkButton>}
    />
  );
}
