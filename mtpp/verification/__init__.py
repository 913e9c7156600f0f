"""The second opinion: certificates checked again; of the project, only records of graph and platform are shared."""
