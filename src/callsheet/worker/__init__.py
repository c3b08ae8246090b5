"""The agent that runs beside a GPU or runs actors. It talks HTTP only."""
