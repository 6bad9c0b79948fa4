import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Asks a server by JDBC: what tables there are, then a statement, plain and prepared. `Query HOST:PORT TOKEN SQL`. */
public final class Query {
    public static void main(String[] arguments) {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        Properties properties = new Properties();
        if (!arguments[1].isEmpty()) {
            properties.setProperty("token", arguments[1]);
        }
        try (Connection connection = DriverManager.getConnection(url, properties)) {
            DatabaseMetaData about = connection.getMetaData();
            System.out.println("product " + about.getDatabaseProductName() + " " + about.isReadOnly());
            askEverything(about);
            print("catalog", about.getCatalogs());
            print("schema", about.getSchemas());
            print("type", about.getTableTypes());
            print("table", about.getTables(null, null, "%", null));
            print("column", about.getColumns("lake", "main", "events", "%"));
            print("key", about.getPrimaryKeys("lake", "main", "events"));
            try (Statement statement = connection.createStatement()) {
                print("row", statement.executeQuery(arguments[2]));
            }
            try (PreparedStatement statement = connection.prepareStatement(arguments[2])) {
                print("again", statement.executeQuery());
                print("again", statement.executeQuery());
            }
        } catch (SQLException error) {
            System.out.println("error " + error.getMessage());
            System.exit(1);
        }
    }

    /** Tools ask what a server can do, one method after the other, and stop at the first that fails. */
    private static void askEverything(DatabaseMetaData about) {
        for (Method method : DatabaseMetaData.class.getMethods()) {
            if (method.getParameterCount() > 0 || method.getReturnType() == ResultSet.class) {
                continue;
            }
            try {
                method.invoke(about);
            } catch (ReflectiveOperationException error) {
                System.out.println("fails " + method.getName() + " " + error.getCause());
            }
        }
    }

    private static void print(String name, ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        int columns = Math.min(about.getColumnCount(), 4);
        while (rows.next()) {
            StringBuilder line = new StringBuilder(name);
            for (int column = 1; column <= columns; column++) {
                line.append(column == 1 ? " " : "|").append(rows.getString(column));
            }
            System.out.println(line);
        }
        rows.close();
    }
}
