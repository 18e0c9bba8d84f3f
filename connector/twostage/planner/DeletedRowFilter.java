package twostage_planner;

import java.util.Base64;
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

/** Leaves deleted rows out of a scan that Spark's reader does: a filter that looks each row up in a bit set. */
final class DeletedRowFilter {
  private DeletedRowFilter() {}

  /** Columns number `place` and `place + 1` of `relation` are the row's position in its file, and the bit of the file's first row. */
  static LogicalPlan without(LogicalPlan relation, int place, Answers.DeletedRows deleted) {
    Expression position = notNull((Expression) relation.output().apply(place));
    Expression firstBit = (Expression) relation.output().apply(place + 1);
    Expression number = new Cast(position, DataTypes.IntegerType, Option.empty(), EvalMode.LEGACY());
    ListBuffer arguments = new ListBuffer();
    arguments.$plus$eq(new Add(firstBit, number));
    Expression bits = Literal$.MODULE$.fromObject(
        read(deleted.texts, deleted.size), new ObjectType(BitSet.class));
    return new Filter(
        new Not(new Invoke(
            bits, "get", DataTypes.BooleanType, arguments.toList(), (scala.collection.immutable.Seq) Nil$.MODULE$, true, false, true)),
        relation);
  }

  /** Spark declares the position as a column that may be NULL. It never is, or the query must fail. */
  private static Expression notNull(Expression position) {
    return new AssertNotNull(position, (scala.collection.immutable.Seq) Nil$.MODULE$);
  }

  /** The bits of texts: in bytes, lowest bit first, compressed by zlib, cut into parts, each in Base64. */
  private static BitSet read(String[] packed, int size) {
    byte[] bytes = new byte[(size + 7) / 8];
    Inflater inflater = new Inflater();
    int next = 0;
    try {
      int filled = 0;
      while (filled < bytes.length) {
        while (inflater.needsInput() && next < packed.length) {
          inflater.setInput(Base64.getDecoder().decode(packed[next++]));
        }
        int more = inflater.inflate(bytes, filled, bytes.length - filled);
        if (more == 0 && (inflater.finished() || inflater.needsDictionary() || next == packed.length)) {
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
