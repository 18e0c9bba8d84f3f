/** The name that users write: spark.sql.catalog.lake=twostage, and format("twostage"). */
public class twostage extends twostage_planner.TwoStageCatalog {}
