package twostage_benchmark;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/**
 * Writes an equality-delete file with Iceberg's own writer, given its keys as numbers: one by one they would pass too
 * slowly from Python. Compiled by the benchmark in Spark's JVM.
 */
public class KeyFiles {
    /**
     * @param keys longs, little-endian; a text column's key is "order-" and the number in ten digits
     * @return the file, with the metrics that Iceberg's writer took; not committed
     */
    public DeleteFile write(Table table, String path, int[] fieldIds, byte[] keys) throws Exception {
        Set wanted = new HashSet();
        for (int place = 0; place < fieldIds.length; place++) {
            wanted.add(Integer.valueOf(fieldIds[place]));
        }
        Schema schema = TypeUtil.select(table.schema(), wanted);
        List columns = schema.columns();
        boolean[] isText = new boolean[columns.size()];
        for (int place = 0; place < isText.length; place++) {
            isText[place] = ((Types.NestedField) columns.get(place)).type() instanceof Types.StringType;
        }
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table)
                .deleteFileFormat(FileFormat.PARQUET)
                .equalityFieldIds(fieldIds)
                .equalityDeleteRowSchema(schema)
                .build();
        EncryptedOutputFile target = EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path));
        EqualityDeleteWriter writer = factory.newEqualityDeleteWriter(target, table.spec(), null);
        try {
            LongBuffer numbers = ByteBuffer.wrap(keys).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
            GenericRecord record = GenericRecord.create(schema);
            while (numbers.hasRemaining()) {
                long number = numbers.get();
                for (int place = 0; place < isText.length; place++) {
                    record.set(place, isText[place] ? (Object) text(number) : (Object) Long.valueOf(number));
                }
                writer.write(record);
            }
        } finally {
            writer.close();
        }
        return writer.toDeleteFile();
    }

    private static String text(long number) {
        String digits = Long.toString(number);
        return "order-" + "0000000000".substring(digits.length()) + digits;
    }
}
