import { Link } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import { Button } from "@/design/Button";
import { Empty } from "@/design/Empty";
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
      action={
        <Button asChild>
          <Link to="/effects">{frameTexts.goToEffects}</Link>
        </Button>
      }
    />
  );
}
