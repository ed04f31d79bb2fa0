"""The publications' figures and tables: their published numbers read, and drawn or listed beside one's own runs."""

__all__ = ["FIGURES", "RANK_FIGURES", "TABLES"]

#: figures of tables of ranks
RANK_FIGURES = ("timings", "speedup", "bars", "phases", "ratios", "rank-bars")
#: all figures of `kinema report --figure`
FIGURES = (*RANK_FIGURES, "machines", "timeline")
#: tables of `kinema report --table`: the year of the publication, and the table's number there
TABLES = ("2021-1", "2021-2", "2021-3", "2020-3", "2020-4", "2020-5", "2020-B1", "2017-tasks", "2024-summaries")
