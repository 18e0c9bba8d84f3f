package twostage_planner;

import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.zip.Inflater;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.*;
import org.apache.spark.util.collection.BitSet;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.mutable.ListBuffer;

/** Leaves deleted rows out of a scan that Spark's reader does: a filter that looks each row up in a set of bits. */
final class Deleted {
  private Deleted() {}

  /** `relation` ends with the row's place in its file, and where the file's rows begin among the bits. */
  static LogicalPlan without(LogicalPlan relation, Map deleted) {
    int width = relation.output().size();
    Expression place = known((Expression) relation.output().apply(width - 2));
    Expression begins = (Expression) relation.output().apply(width - 1);
    Expression number = new Cast(place, DataTypes.IntegerType, Option.empty(), EvalMode.LEGACY());
    ListBuffer arguments = new ListBuffer();
    arguments.$plus$eq(new Add(begins, number));
    Expression bits = Literal$.MODULE$.fromObject(
        read((List) deleted.get("bits"), ((Number) deleted.get("size")).intValue()), new ObjectType(BitSet.class));
    return new Filter(
        new Not(new Invoke(
            bits, "get", DataTypes.BooleanType, arguments.toList(), (scala.collection.immutable.Seq) Nil$.MODULE$, true, false, true)),
        relation);
  }

  /** Spark declares the place as a column that may be NULL; it never is, or the query must fail. */
  private static Expression known(Expression place) {
    return new AssertNotNull(place, (scala.collection.immutable.Seq) Nil$.MODULE$);
  }

  /** Bytes of eight bits each, the lowest first, compressed and cut. */
  private static BitSet read(List packed, int size) {
    byte[] bytes = new byte[(size + 7) / 8];
    Inflater inflater = new Inflater();
    int next = 0;
    try {
      int filled = 0;
      while (filled < bytes.length) {
        while (inflater.needsInput() && next < packed.size()) {
          inflater.setInput(Base64.getDecoder().decode((String) packed.get(next++)));
        }
        int more = inflater.inflate(bytes, filled, bytes.length - filled);
        if (more == 0 && (inflater.finished() || inflater.needsDictionary() || next == packed.size())) {
          throw new IllegalStateException("[TWOSTAGE.INTERNAL] Deleted rows are " + filled + " bytes, not " + bytes.length);
        }
        filled += more;
      }
    } catch (java.util.zip.DataFormatException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] Deleted rows do not unpack: " + error.getMessage(), error);
    } finally {
      inflater.end();
    }
    BitSet bits = new BitSet(size);
    for (int i = 0; i < bytes.length; i++) {
      for (int rest = bytes[i] & 0xff; rest != 0; rest &= rest - 1) {
        bits.set(8 * i + Integer.numberOfTrailingZeros(rest));
      }
    }
    return bits;
  }
}
