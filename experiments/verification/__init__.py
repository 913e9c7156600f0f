"""The second opinion: certificates checked again with code that shares nothing with what made them."""
