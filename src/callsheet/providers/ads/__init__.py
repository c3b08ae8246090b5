"""The actors of typed generation: copy, scrape, static ads, videos and speech."""
