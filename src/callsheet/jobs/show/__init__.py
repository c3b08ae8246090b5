"""Jobs as users read them: outputs, progress, outlook and texts."""
