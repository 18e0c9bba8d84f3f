package twostage_planner;

import java.time.LocalDate;
import java.time.ZoneId;
import java.time.zone.ZoneOffsetTransition;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNaN;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Year;
import org.apache.spark.sql.types.*;

/**
 * Spark's filters as comparisons of columns: tests of a timestamp's date, and of the year of a date or timestamp, become ranges
 * of the column; isnan becomes a comparison with NaN, which Spark finds equal to itself. Spark's optimizer does so with
 * comparisons of dates, but neither with IN nor with years.
 *
 * The rule: for every row the new filter is true, false or NULL as the old one is. What has no such form stays as it is.
 */
final class FilterRewriter {
  /** Values of one IN that become ranges; more stay with Spark. */
  private static final int MAX_VALUES = 64;
  private static final long MICROS_OF_A_DAY = 86400000000L;
  /** Days after or before 1970 whose microseconds fit a long. */
  private static final long MAX_DAY = Long.MAX_VALUE / MICROS_OF_A_DAY - 1;
  /** Years whose days are all such days. */
  private static final int MAX_YEAR = 290000;

  private FilterRewriter() {}

  static Expression rewrite(Expression filter) {
    if (filter instanceof Not) {
      return new Not(rewrite(((Not) filter).child()));
    }
    if (filter instanceof And) {
      return new And(rewrite(((And) filter).left()), rewrite(((And) filter).right()));
    }
    if (filter instanceof Or) {
      return new Or(rewrite(((Or) filter).left()), rewrite(((Or) filter).right()));
    }
    Expression found = null;
    if (filter instanceof IsNaN) {
      found = isNaN(((IsNaN) filter).child());
    } else if (filter instanceof IsNull && isCalendar(((IsNull) filter).child())) {
      found = new IsNull(columnOf(((IsNull) filter).child()));
    } else if (filter instanceof IsNotNull && isCalendar(((IsNotNull) filter).child())) {
      found = new IsNotNull(columnOf(((IsNotNull) filter).child()));
    } else if (filter instanceof BinaryComparison) {
      found = compared((BinaryComparison) filter);
    } else if (filter instanceof In) {
      found = among((In) filter);
    } else if (filter instanceof InSet) {
      found = among((InSet) filter);
    }
    return found == null ? filter : found;
  }

  private static Expression isNaN(Expression column) {
    if (column.dataType() instanceof DoubleType) {
      return new And(new IsNotNull(column), new EqualTo(column, new Literal(Double.valueOf(Double.NaN), column.dataType())));
    }
    return !(column.dataType() instanceof FloatType) ? null
        : new And(new IsNotNull(column), new EqualTo(column, new Literal(Float.valueOf(Float.NaN), column.dataType())));
  }

  /** Whether a term is the date of a timestamp, or the year of a date or timestamp: it never falls while its column rises. */
  private static boolean isCalendar(Expression term) {
    return isDate(term) || term instanceof Year && ((Year) term).child().dataType() instanceof DateType;
  }

  private static boolean isDate(Expression term) {
    return term instanceof Cast && term.dataType() instanceof DateType
        && (((Cast) term).child().dataType() instanceof TimestampType
            || ((Cast) term).child().dataType() instanceof TimestampNTZType);
  }

  private static Expression columnOf(Expression term) {
    if (term instanceof Year) {
      Expression date = ((Year) term).child();
      return isDate(date) ? columnOf(date) : date;
    }
    return ((Cast) term).child();
  }

  /** The least value of the column at which the term is not less than `value`; null if no value tells these apart. */
  private static Literal start(Expression term, long value) {
    if (term instanceof Year) {
      if (Math.abs(value) > MAX_YEAR) {
        return null;
      }
      Expression date = ((Year) term).child();
      long day = LocalDate.of((int) value, 1, 1).toEpochDay();
      return isDate(date) ? start(date, day) : new Literal(Integer.valueOf((int) day), date.dataType());
    }
    if (Math.abs(value) > MAX_DAY) {
      return null;
    }
    DataType type = ((Cast) term).child().dataType();
    if (type instanceof TimestampNTZType) {
      return new Literal(Long.valueOf(value * MICROS_OF_A_DAY), type);
    }
    LocalDate day = LocalDate.ofEpochDay(value);
    ZoneId zone = ((Cast) term).zoneId();
    ZoneOffsetTransition transition = zone.getRules().getTransition(day.atStartOfDay());
    if (transition != null && transition.isOverlap() && transition.getDateTimeAfter().isBefore(day.atStartOfDay())) {
      return null; // clocks go back over midnight: after it, the day before goes on
    }
    long seconds = day.atStartOfDay(zone).toEpochSecond();
    return new Literal(Long.valueOf(seconds * 1000000L), type);
  }

  private static Expression compared(BinaryComparison comparison) {
    Expression term = (Expression) comparison.left();
    Expression other = (Expression) comparison.right();
    boolean turned = other instanceof Cast || other instanceof Year;
    if (turned) {
      term = (Expression) comparison.right();
      other = (Expression) comparison.left();
    }
    if (!isCalendar(term) || !(other instanceof Literal)) {
      return null;
    }
    Expression column = columnOf(term);
    Object value = ((Literal) other).value();
    if (value == null) {
      return comparison instanceof EqualNullSafe ? new IsNull(column) : null;
    }
    long number = ((Number) value).longValue();
    Literal from = start(term, number);
    Literal behind = start(term, number + 1);
    if (comparison instanceof EqualTo || comparison instanceof EqualNullSafe) {
      Expression within = within(column, from, behind);
      return comparison instanceof EqualTo || within == null ? within : new And(new IsNotNull(column), within);
    }
    boolean less = comparison instanceof LessThan || comparison instanceof LessThanOrEqual;
    boolean orEqual = comparison instanceof LessThanOrEqual || comparison instanceof GreaterThanOrEqual;
    if (!less && !(comparison instanceof GreaterThan) && !orEqual) {
      return null;
    }
    less = less != turned;
    Literal bound = less == orEqual ? behind : from;
    if (bound == null) {
      return null;
    }
    return less ? (Expression) new LessThan(column, bound) : new GreaterThanOrEqual(column, bound);
  }

  private static Expression within(Expression column, Literal from, Literal behind) {
    return from == null || behind == null ? null
        : new And(new GreaterThanOrEqual(column, from), new LessThan(column, behind));
  }

  private static Expression among(In test) {
    List given = new ArrayList();
    for (int i = 0; i < test.list().size(); i++) {
      if (!(test.list().apply(i) instanceof Literal)) {
        return null;
      }
      given.add(((Literal) test.list().apply(i)).value());
    }
    return among(test.value(), given);
  }

  private static Expression among(InSet test) {
    List given = new ArrayList();
    scala.collection.Iterator each = test.hset().iterator();
    while (each.hasNext()) {
      given.add(each.next());
    }
    return among(test.child(), given);
  }

  /** The test whether a term is one of some values, which may include NULL. */
  private static Expression among(Expression term, List given) {
    if (!isCalendar(term)) {
      return null;
    }
    boolean hasNull = given.contains(null);
    TreeSet values = new TreeSet();
    for (int i = 0; i < given.size(); i++) {
      if (given.get(i) != null) {
        values.add(Long.valueOf(((Number) given.get(i)).longValue()));
      }
    }
    if (values.isEmpty() || values.size() > MAX_VALUES) {
      return null;
    }
    Expression column = columnOf(term);
    // IN with a NULL among its values is NULL where it would be false.
    Expression found = hasNull ? new EqualTo(column, new Literal(null, column.dataType())) : null;
    Iterator each = values.iterator();
    long first = ((Long) each.next()).longValue();
    long last = first;
    while (true) {
      boolean ends = !each.hasNext();
      long next = ends ? 0 : ((Long) each.next()).longValue();
      if (ends || next != last + 1) {
        Expression range = within(column, start(term, first), start(term, last + 1));
        if (range == null) {
          return null;
        }
        found = found == null ? range : new Or(found, range);
        first = next;
      }
      if (ends) {
        return found;
      }
      last = next;
    }
  }
}
