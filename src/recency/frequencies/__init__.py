"""How often items came: rows of cells to which items are hashed, each a counter or a sample."""
