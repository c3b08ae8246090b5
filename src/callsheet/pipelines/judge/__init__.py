"""Actions of people on candidates: compare, vote, kill, approve, replay and export."""
