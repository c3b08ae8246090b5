"""The actors of typed generation: copy, scrape, static ads, films and speech."""
