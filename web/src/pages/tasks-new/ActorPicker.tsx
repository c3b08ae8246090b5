import { Link } from "@tanstack/react-router";
import { AudioLines, Bot, Clapperboard, Globe, ImagePlus, type LucideIcon, PenLine, Sparkles } from "lucide-react";
import { classes } from "@/design";
import type { Actor } from "@/parts/actors";
import { taskTexts } from "@/texts/tasks";

const ICONS: Record<string, LucideIcon> = {
  copy: PenLine,
  scrape: Globe,
  static_ad: ImagePlus,
  ugc_video: Clapperboard,
  tts: AudioLines,
  media: Sparkles,
};

/** The URL has the selected actor. */
export function ActorPicker({ actors, chosen }: { actors: readonly Actor[]; chosen: string }) {
  return (
    <nav aria-label={taskTexts.actors} className="grid grid-cols-2 gap-2 md:grid-cols-3">
      {actors.map((actor) => {
        const Icon = ICONS[actor.name] ?? Bot;
        const isChosen = actor.name === chosen;
        return (
          <Link
            key={actor.name}
            to="/tasks/new"
            search={{ actor: actor.name }}
            aria-current={isChosen ? "true" : undefined}
            className={classes(
              "grid content-start gap-2 rounded-m border p-3 transition-colors duration-100",
              isChosen ? "border-accent bg-accent-soft" : "bg-panel hover:border-line-strong",
            )}
          >
            <span className="flex items-center justify-between">
              <Icon size={18} aria-hidden className={isChosen ? "text-accent" : "text-muted"} />
              {!actor.is_ready && <span className="text-xs text-muted">{taskTexts.notSetUp}</span>}
            </span>
            <span>
              <span className="block font-[550]">{actor.title}</span>
              {/* On a phone the form takes this place, and the form describes the selected actor. */}
              <span className="block text-s text-balance text-muted max-sm:hidden">{actor.description}</span>
            </span>
          </Link>
        );
      })}
    </nav>
  );
}
